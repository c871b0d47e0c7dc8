using System;
using System.Linq;

namespace Tau.Core
{
    /// <summary>Converts a policy's output to an answer.</summary>
    public static class Decoding
    {
        /// <summary>Position of the target with the smallest Euclidean distance to an output.</summary>
        /// <param name="output">The policy's output, one number for each action.</param>
        /// <param name="targets">[K][actions] with K at least 1; only the first <paramref name="count"/> count.</param>
        /// <param name="count">How many targets to choose from, 1 to K.</param>
        /// <returns>The position; the lowest one if several targets are equally near.</returns>
        /// <exception cref="TauException">The output is NaN or infinite.</exception>
        public static int Nearest(float[] output, float[][] targets, int count)
        {
            if (output.Any(value => float.IsNaN(value) || float.IsInfinity(value)))
            {
                throw new TauException("The policy's output is not finite, so no answer can be read from it.");
            }
            var best = 0;
            var least = double.PositiveInfinity;
            for (var index = 0; index < count; index++)
            {
                var distance = Distance(output, targets[index]);
                if (distance < least)
                {
                    least = distance;
                    best = index;
                }
            }
            return best;
        }

        private static double Distance(float[] output, float[] target)
        {
            var sum = 0.0;
            for (var column = 0; column < target.Length; column++)
            {
                var error = (double)target[column] - output[column];
                sum += error * error;
            }
            return sum;
        }
    }
}
