using System;
using System.Linq;

namespace Tau.Core
{
    /// <summary>One of Tau's two environments: the number of the policy's outputs, and their reward.</summary>
    public sealed class TauProfile
    {
        /// <summary>Floats in one text embedding (all-MiniLM-L6-v2), and so in one observation.</summary>
        public const int EmbeddingSize = 384;

        /// <summary>By the value of the environment parameter `profile`.</summary>
        private static readonly TauProfile[] All =
        {
            new TauProfile("tau384", EmbeddingSize, "binary"),
            new TauProfile("tau3", 3, "incremental"),
        };

        private TauProfile(string name, int actionSize, string reward)
        {
            Name = name;
            ActionSize = actionSize;
            Reward = reward;
        }

        /// <summary>`tau384` or `tau3`.</summary>
        public string Name { get; }

        /// <summary>Number of continuous actions; targets have the same width.</summary>
        public int ActionSize { get; }

        /// <summary>The profile's default reward: a name in <see cref="RewardFormulas"/>.</summary>
        public string Reward { get; }

        /// <summary>The profile called <paramref name="name"/>.</summary>
        /// <exception cref="TauException">There is no such profile.</exception>
        public static TauProfile Get(string name)
        {
            return All.FirstOrDefault(profile => profile.Name == name)
                ?? throw new TauException($"There is no Tau profile `{name}`; choose `tau3` or `tau384`.");
        }

        /// <summary>The profile for a value of the environment parameter `profile`.</summary>
        /// <exception cref="TauException">The number is not a valid profile.</exception>
        public static TauProfile ByIndex(float index)
        {
            return index == 0f || index == 1f ? All[(int)index] : throw new TauException(FormattableString.Invariant(
                $"Environment parameter `profile` is {index}; use 0 (`tau384`) or 1 (`tau3`)."));
        }
    }
}
