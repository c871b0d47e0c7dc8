using System;
using Tau.Core;
using Unity.MLAgents;

namespace Tau
{
    /// <summary>
    /// The environment parameters from the trainer: floats by name. They exist once the academy does, and can change
    /// with every exchange.
    /// </summary>
    internal sealed class EngineParameters
    {
        /// <summary>The parameters that can change while a game runs: those of <see cref="TauRules"/>.</summary>
        private static readonly string[] Rules =
        {
            "reward_type", "columns", "threshold", "max_decisions", "reward_threshold", "faithful_terminal", "split",
        };

        private readonly EnvironmentParameters _parameters;

        /// <summary>The parameters of the running academy.</summary>
        public EngineParameters(Academy academy)
        {
            _parameters = academy.EnvironmentParameters;
        }

        /// <summary>The value of a parameter; null if the trainer has not set it.</summary>
        /// <remarks>If a parameter is a sampler, every call returns another value.</remarks>
        public float? Get(string name)
        {
            float value = _parameters.GetWithDefault(name, float.NaN);
            return float.IsNaN(value) ? (float?)null : value;
        }

        /// <summary>Calls <paramref name="changed"/> when a number arrives for one of the rules.</summary>
        /// <param name="changed">Gets the number; null: stop watching.</param>
        /// <remarks>ML-Agents makes no calls for samplers; they are read again at every reset.</remarks>
        public void WatchRules(Action<float> changed)
        {
            foreach (string name in Rules)
            {
                _parameters.RegisterCallback(name, changed);
            }
        }

        /// <summary>A parameter that is a count, at least 1; null if it is not set.</summary>
        /// <exception cref="TauException">Its value is not a valid count.</exception>
        public int? Count(string name)
        {
            float? value = Get(name);
            if (value.HasValue && !(value.Value >= 1f && value.Value <= TauOptions.MostPairs))
            {
                throw new TauException(FormattableString.Invariant(
                    $"Environment parameter `{name}` is {value.Value}; give 1 to {TauOptions.MostPairs}."));
            }
            return (int?)value;
        }
    }
}
