using System;
using System.Collections.Generic;
using System.Linq;

namespace Tau.Core
{
    /// <summary>The reward that one answer earns.</summary>
    /// <param name="output">The action, already clipped by the environment.</param>
    /// <param name="target">The right answer's target, with the same number of components.</param>
    /// <param name="threshold">Absolute error strictly below which a component is right; above 0.</param>
    /// <param name="columns">Number of leading components that count, at least 1.</param>
    public delegate double RewardFormula(float[] output, float[] target, double threshold, int columns);

    /// <summary>
    /// Tau's reward formulas, the same as the trainer's by name and by number. "Right" means an absolute error strictly
    /// below the threshold; only the first columns count; everything is compared in double precision.
    /// </summary>
    public static class RewardFormulas
    {
        /// <summary>Absolute error below which a component counts as right.</summary>
        public const double DefaultThreshold = 0.1;

        private static readonly RewardFormula[] Formulas = { Binary, Difference, Incremental, BinaryStrict, Binary01 };

        /// <summary>Names; the position is the value of the environment parameter `reward_type`.</summary>
        public static IReadOnlyList<string> Names { get; } = Array.AsReadOnly(
            new[] { "binary", "difference", "incremental", "binary_strict", "binary01" });

        /// <summary>Mean over components of +1 (right) or -1 (not). Range [-1, 1].</summary>
        public static double Binary(float[] output, float[] target, double threshold, int columns)
        {
            return (2.0 * Right(output, target, threshold, columns) / columns) - 1.0;
        }

        /// <summary>+1 if every component is right, else -1.</summary>
        public static double BinaryStrict(float[] output, float[] target, double threshold, int columns)
        {
            return (2.0 * Binary01(output, target, threshold, columns)) - 1.0;
        }

        /// <summary>1 if every component is right, else 0.</summary>
        public static double Binary01(float[] output, float[] target, double threshold, int columns)
        {
            return Right(output, target, threshold, columns) == columns ? 1.0 : 0.0;
        }

        /// <summary>Minus the mean absolute error, never above 0. The threshold has no effect.</summary>
        public static double Difference(float[] output, float[] target, double threshold, int columns)
        {
            var sum = 0.0;
            for (var column = 0; column < columns; column++)
            {
                sum += Error(output, target, column);
            }
            return -sum / columns;
        }

        /// <summary>Mean over components of 1 - 2 * error. Range [-3, 1] for values in [-1, 1]. No threshold.</summary>
        public static double Incremental(float[] output, float[] target, double threshold, int columns)
        {
            return 1.0 + (2.0 * Difference(output, target, threshold, columns));
        }

        /// <summary>The formula called <paramref name="name"/>.</summary>
        /// <exception cref="TauException">There is no such formula.</exception>
        public static RewardFormula Get(string name)
        {
            var index = Array.IndexOf(Names.ToArray(), name);
            return index >= 0 ? Formulas[index] : throw new TauException(
                $"There is no reward formula `{name}`; choose one of `{string.Join("`, `", Names)}`.");
        }

        /// <summary>Name of the formula for a value of the environment parameter `reward_type`.</summary>
        /// <exception cref="TauException">The number is not a valid formula.</exception>
        public static string NameByIndex(float index)
        {
            var known = index >= 0f && index < Formulas.Length && index == (int)index;
            return known ? Names[(int)index] : throw new TauException(FormattableString.Invariant(
                $"Environment parameter `reward_type` is {index}; use 0 to 4: {string.Join(", ", Names)}."));
        }

        private static int Right(float[] output, float[] target, double threshold, int columns)
        {
            var count = 0;
            for (var column = 0; column < columns; column++)
            {
                count += Error(output, target, column) < threshold ? 1 : 0;
            }
            return count;
        }

        private static double Error(float[] output, float[] target, int column)
        {
            return Math.Abs((double)target[column] - output[column]);
        }
    }
}
