using System;

namespace Tau.Core
{
    /// <summary>From a policy's output back to an answer: the nearest target.</summary>
    public static class Decoding
    {
        /// <summary>Position of the target with the smallest Euclidean distance to an output.</summary>
        /// <param name="output">[A]: the policy's output.</param>
        /// <param name="targets">[K][A] with K at least 1.</param>
        /// <returns>0 .. K-1; the lowest position where several targets are equally near.</returns>
        /// <exception cref="TauException">
        /// The output is NaN or infinite: it would otherwise be read as some answer.
        /// </exception>
        /// <exception cref="ArgumentException">The widths differ or there is no target.</exception>
        public static int Nearest(float[] output, float[][] targets)
        {
            Check(output, targets);
            var best = 0;
            var least = double.PositiveInfinity;
            for (var index = 0; index < targets.Length; index++)
            {
                var score = Score(output, targets[index]);
                if (score < least)
                {
                    least = score;
                    best = index;
                }
            }
            return best;
        }

        /// <summary>|output - target|^2 without |output|^2, which is the same for every target.</summary>
        private static double Score(float[] output, float[] target)
        {
            if (target.Length != output.Length)
            {
                throw new ArgumentException($"the output has {output.Length} numbers, a target {target.Length}");
            }
            double square = 0.0, product = 0.0;
            for (var column = 0; column < target.Length; column++)
            {
                double value = target[column];
                square += value * value;
                product += value * output[column];
            }
            return square - (2.0 * product);
        }

        private static void Check(float[] output, float[][] targets)
        {
            if (targets.Length == 0)
            {
                throw new ArgumentException("there is no target to choose from", nameof(targets));
            }
            foreach (var value in output)
            {
                if (float.IsNaN(value) || float.IsInfinity(value))
                {
                    throw new TauException("The policy's output is not finite, so no answer can be read from it.");
                }
            }
        }
    }
}
