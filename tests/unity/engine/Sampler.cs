using System;
using System.Collections.Generic;
using Tau.Core;

namespace Tau.Engine
{
    /// <summary>A distribution that an environment parameter is drawn from at every use.</summary>
    internal sealed class Sampler
    {
        private const int Uniform = 0;
        private const int Gaussian = 1;
        private const int MultiRange = 2;

        private readonly int _kind;
        private readonly float[] _values;
        private readonly AgentRandom _random;

        /// <summary>A distribution as it travels.</summary>
        /// <param name="name">Of the parameter, for error messages.</param>
        /// <param name="seed">Where the draws begin.</param>
        /// <param name="kind">0 uniform, 1 gaussian, 2 uniform over several ranges.</param>
        /// <param name="values">
        /// Uniform: minimum, maximum. Gaussian: mean, deviation. Ranges: minimum, maximum, ...
        /// </param>
        /// <exception cref="TauException">There is no such distribution.</exception>
        public Sampler(string name, int seed, int kind, float[] values)
        {
            _kind = kind;
            _values = values;
            _random = new AgentRandom(seed, 0);
            if (kind < Uniform || kind > MultiRange || !IsSound(kind, values))
            {
                throw new TauException(
                    $"Environment parameter `{name}` has a sampler of kind {kind} with {values.Length} numbers that " +
                    "mean nothing; give finite numbers, no minimum above its maximum, and no negative deviation.");
            }
        }

        /// <summary>The next draw.</summary>
        public float Draw()
        {
            return _kind == Gaussian ? DrawGaussian() : DrawUniform();
        }

        private static bool IsSound(int kind, IReadOnlyList<float> values)
        {
            var sound = values.Count >= 2 && values.Count % 2 == 0;
            for (var i = 0; i < values.Count && sound; i++)
            {
                sound = !float.IsNaN(values[i]) && !float.IsInfinity(values[i]);
                sound &= kind == Gaussian || i % 2 == 0 || values[i - 1] <= values[i];
            }

            return sound && (kind != Gaussian || values[1] >= 0);
        }

        /// <summary>Box and Muller's transform (Annals of Mathematical Statistics 29, 1958).</summary>
        private float DrawGaussian()
        {
            var length = Math.Sqrt(-2.0 * Math.Log(1.0 - _random.NextUniform()));
            return (float)(_values[0] + _values[1] * length * Math.Cos(2.0 * Math.PI * _random.NextUniform()));
        }

        /// <summary>Each range gets a share of the draws in proportion to its width.</summary>
        private float DrawUniform()
        {
            var total = 0.0;
            for (var i = 0; i < _values.Length; i += 2)
            {
                total += (double)_values[i + 1] - _values[i];
            }

            if (total == 0.0)
            {
                return _values[2 * _random.Next(_values.Length / 2)]; // ranges of one point each
            }

            var place = _random.NextUniform() * total;
            var range = 0;
            while (range + 2 < _values.Length && place >= (double)_values[range + 1] - _values[range])
            {
                place -= (double)_values[range + 1] - _values[range];
                range += 2;
            }

            return (float)Math.Min(_values[range] + place, _values[range + 1]);
        }
    }
}
