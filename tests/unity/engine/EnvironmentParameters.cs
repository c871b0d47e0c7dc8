using System.Collections.Generic;
using Tau.Core;

namespace Tau.Engine
{
    /// <summary>Environment parameters as the trainer last set them: numbers, or distributions.</summary>
    internal sealed class EnvironmentParameters
    {
        private readonly Dictionary<string, float> _numbers = new Dictionary<string, float>();
        private readonly Dictionary<string, Sampler> _samplers = new Dictionary<string, Sampler>();

        /// <summary>Set a number.</summary>
        /// <exception cref="TauException">It is not finite.</exception>
        public void Set(string name, float value)
        {
            if (float.IsNaN(value) || float.IsInfinity(value))
            {
                throw new TauException($"Environment parameter `{name}` is not finite; give a number.");
            }

            _numbers[name] = value;
            _samplers.Remove(name);
        }

        /// <summary>Set a distribution.</summary>
        public void Set(string name, Sampler sampler)
        {
            _samplers[name] = sampler;
            _numbers.Remove(name);
        }

        /// <summary>The value now, where the trainer has set one; a distribution is drawn.</summary>
        public float? Get(string name)
        {
            if (_samplers.TryGetValue(name, out var sampler))
            {
                return sampler.Draw();
            }

            return _numbers.TryGetValue(name, out var number) ? number : (float?)null;
        }
    }
}
