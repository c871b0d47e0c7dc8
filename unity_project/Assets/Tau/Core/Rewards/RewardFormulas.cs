using System;
using System.Collections.Generic;
using System.Globalization;
using System.Linq;

namespace Tau.Core
{
    /// <summary>
    /// Tau's reward formulas, the same as the trainer's by name and by number. "Within" means an absolute error
    /// strictly below the threshold; only the first columns count; everything is compared in double precision.
    /// </summary>
    public static class RewardFormulas
    {
        /// <summary>Absolute error below which a component counts as right.</summary>
        public const double DefaultThreshold = 0.1;

        private static readonly string[] AllNames =
        {
            "binary", "difference", "incremental", "binary_strict", "binary01",
        };

        private static readonly RewardFormula[] Formulas = { Binary, Difference, Incremental, BinaryStrict, Binary01 };

        /// <summary>Names; the position is the value of the environment parameter `reward_type`.</summary>
        public static IReadOnlyList<string> Names { get; } = Array.AsReadOnly(AllNames);

        /// <summary>Mean over components of +1 (within) or -1 (not). Range [-1, 1].</summary>
        public static double Binary(float[] output, float[] target, double threshold, int columns)
        {
            Check(output, target, columns);
            return (2.0 * ((double)Within(output, target, Checked(threshold), columns) / columns)) - 1.0;
        }

        /// <summary>+1 if every component is within, else -1.</summary>
        public static double BinaryStrict(float[] output, float[] target, double threshold, int columns)
        {
            return (2.0 * Binary01(output, target, threshold, columns)) - 1.0;
        }

        /// <summary>Minus the mean absolute error, never above 0. The threshold has no effect.</summary>
        public static double Difference(float[] output, float[] target, double threshold, int columns)
        {
            Check(output, target, columns);
            return -MeanError(output, target, columns);
        }

        /// <summary>Mean over components of 1 - 2 * error. Range [-3, 1] for values in [-1, 1]. No threshold.</summary>
        public static double Incremental(float[] output, float[] target, double threshold, int columns)
        {
            Check(output, target, columns);
            return 1.0 - (2.0 * MeanError(output, target, columns));
        }

        /// <summary>1 if every component is within, else 0.</summary>
        public static double Binary01(float[] output, float[] target, double threshold, int columns)
        {
            Check(output, target, columns);
            return Within(output, target, Checked(threshold), columns) == columns ? 1.0 : 0.0;
        }

        /// <summary>The formula called <paramref name="name"/>.</summary>
        /// <exception cref="TauException">There is no such formula.</exception>
        public static RewardFormula Get(string name)
        {
            var position = Array.IndexOf(AllNames, name);
            if (position < 0)
            {
                throw new TauException(
                    "There is no reward formula `" + name + "`; choose one of " + Known(AllNames) + ".");
            }
            return Formulas[position];
        }

        /// <summary>Name of the formula that the environment parameter `reward_type` stands for.</summary>
        /// <exception cref="TauException">The number stands for no formula.</exception>
        public static string NameByIndex(float index)
        {
            for (var position = 0; position < AllNames.Length; position++)
            {
                if (position == index)
                {
                    return AllNames[position];
                }
            }
            var known = string.Join(", ", AllNames.Select(
                (name, position) => position.ToString(CultureInfo.InvariantCulture) + " (`" + name + "`)"));
            throw new TauException(
                "Environment parameter `reward_type` is " + PythonText.General(index)
                + ", which stands for no formula; use " + known + ".");
        }

        /// <summary>Whether a formula is a mean over components, so that each can be paid on its own.</summary>
        public static bool HasComponents(string name)
        {
            return name == "binary" || name == "difference" || name == "incremental";
        }

        /// <summary>What each component earns, before it is averaged.</summary>
        /// <returns>[d]; components from <paramref name="columns"/> on earn 0.</returns>
        /// <exception cref="TauException">
        /// The formula is unknown or judges all components together (`binary_strict`, `binary01`), or the threshold or
        /// the columns are outside of their range.
        /// </exception>
        public static double[] Components(string name, float[] output, float[] target, double threshold, int columns)
        {
            Get(name);
            if (!HasComponents(name))
            {
                throw new TauException(
                    "Reward formula `" + name + "` judges all components together, so it has no reward per component; "
                    + "set `credit: aggregate` or choose one of " + Known(AllNames.Where(HasComponents)) + ".");
            }
            Check(output, target, columns);
            Checked(threshold);
            var rewards = new double[output.Length];
            for (var column = 0; column < columns; column++)
            {
                rewards[column] = Component(name, Error(output, target, column), threshold);
            }
            return rewards;
        }

        private static double Component(string name, double error, double threshold)
        {
            if (name == "binary")
            {
                return error < threshold ? 1.0 : -1.0;
            }
            return name == "difference" ? -error : 1.0 - (2.0 * error);
        }

        private static double Error(float[] output, float[] target, int column)
        {
            return Math.Abs((double)target[column] - output[column]);
        }

        private static int Within(float[] output, float[] target, double threshold, int columns)
        {
            var count = 0;
            for (var column = 0; column < columns; column++)
            {
                count += Error(output, target, column) < threshold ? 1 : 0;
            }
            return count;
        }

        private static double MeanError(float[] output, float[] target, int columns)
        {
            return PairwiseSum.Of(new Errors(output, target), 0, columns) / columns;
        }

        private static double Checked(double threshold)
        {
            if (!(threshold > 0.0))
            {
                throw new TauException(
                    "Reward `threshold` is " + PythonText.General(threshold) + " but must be greater than 0.");
            }
            return threshold;
        }

        private static void Check(float[] output, float[] target, int columns)
        {
            if (output.Length != target.Length)
            {
                throw new ArgumentException($"the output has {output.Length} numbers, the target {target.Length}");
            }
            if (columns < 1 || columns > output.Length)
            {
                throw new TauException(
                    "Reward `columns` is " + columns.ToString(CultureInfo.InvariantCulture)
                    + " but must lie between 1 and the " + output.Length.ToString(CultureInfo.InvariantCulture)
                    + " action components.");
            }
        }

        private static string Known(IEnumerable<string> names)
        {
            return string.Join(", ", names.Select(name => "`" + name + "`"));
        }

        private readonly struct Errors : ITerms
        {
            private readonly float[] _output;
            private readonly float[] _target;

            public Errors(float[] output, float[] target)
            {
                _output = output;
                _target = target;
            }

            public double At(int index)
            {
                return Error(_output, _target, index);
            }
        }
    }
}
