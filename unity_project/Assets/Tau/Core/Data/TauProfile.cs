using System.Collections.Generic;
using System.Globalization;
using System.Linq;

namespace Tau.Core
{
    /// <summary>One of Tau's two environments: how many numbers the policy outputs, which reward they earn.</summary>
    public sealed class TauProfile
    {
        /// <summary>Floats in one text embedding (all-MiniLM-L6-v2), hence in one observation.</summary>
        public const int EmbeddingSize = 384;

        private TauProfile(string name, int actionSize, string reward, int index)
        {
            Name = name;
            ActionSize = actionSize;
            Reward = reward;
            Index = index;
        }

        /// <summary>All profiles, in the order of <see cref="Index"/>.</summary>
        public static IReadOnlyList<TauProfile> All { get; } = new[]
        {
            new TauProfile("tau384", EmbeddingSize, "binary", 0),
            new TauProfile("tau3", 3, "incremental", 1),
        };

        /// <summary>`tau384` or `tau3`.</summary>
        public string Name { get; }

        /// <summary>Number of continuous actions; targets have the same width.</summary>
        public int ActionSize { get; }

        /// <summary>What the profile pays by default: a name in <see cref="RewardFormulas"/>.</summary>
        public string Reward { get; }

        /// <summary>Value of the environment parameter `profile` that stands for this profile.</summary>
        public int Index { get; }

        /// <summary>The profile called <paramref name="name"/>.</summary>
        /// <exception cref="TauException">There is no such profile.</exception>
        public static TauProfile Get(string name)
        {
            foreach (var profile in All)
            {
                if (profile.Name == name)
                {
                    return profile;
                }
            }
            var known = string.Join(", ", All.Select(profile => "`" + profile.Name + "`"));
            throw new TauException("There is no Tau profile `" + name + "`; choose one of " + known + ".");
        }

        /// <summary>The profile that the environment parameter `profile` names by number.</summary>
        /// <exception cref="TauException">The number stands for no profile.</exception>
        public static TauProfile ByIndex(float index)
        {
            foreach (var profile in All)
            {
                if (profile.Index == index)
                {
                    return profile;
                }
            }
            var known = string.Join(", ", All.Select(
                profile => profile.Index.ToString(CultureInfo.InvariantCulture) + " (`" + profile.Name + "`)"));
            throw new TauException(
                "Environment parameter `profile` is " + PythonText.General(index)
                + ", which stands for no profile; use " + known + ".");
        }

        /// <summary>The profile's name.</summary>
        public override string ToString()
        {
            return Name;
        }
    }
}
