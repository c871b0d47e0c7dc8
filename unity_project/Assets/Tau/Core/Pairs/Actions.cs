using System;

namespace Tau.Core
{
    /// <summary>What a game does with the numbers that a policy sends.</summary>
    internal static class Actions
    {
        /// <summary>Copies <paramref name="output"/> to <paramref name="clipped"/>, clipped to [-1, 1].</summary>
        /// <exception cref="TauException">
        /// The number of actions is wrong or one is NaN; nothing was copied then.
        /// </exception>
        public static void Clip(float[] output, float[] clipped, int agent, string profile)
        {
            if (output == null)
            {
                throw new ArgumentNullException(nameof(output));
            }
            if (output.Length != clipped.Length)
            {
                throw new TauException(
                    FormattableString.Invariant($"The trainer sent {output.Length} actions for agent {agent}, but ") +
                    FormattableString.Invariant($"profile `{profile}` has {clipped.Length}; train with that profile."));
            }
            foreach (var value in output)
            {
                if (float.IsNaN(value))
                {
                    throw new TauException(FormattableString.Invariant(
                        $"The trainer sent NaN as an action for agent {agent}; its policy has diverged."));
                }
            }
            for (var column = 0; column < output.Length; column++)
            {
                clipped[column] = Math.Min(Math.Max(output[column], -1f), 1f);
            }
        }
    }
}
