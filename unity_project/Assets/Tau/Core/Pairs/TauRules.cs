using System;

namespace Tau.Core
{
    /// <summary>
    /// What may change while a Tau game runs; each value is an environment parameter too. Immutable. The same rules,
    /// names and defaults as the trainer's headless scene.
    /// </summary>
    public sealed class TauRules
    {
        /// <summary>Rules, unchecked: see <see cref="Check"/>.</summary>
        public TauRules(
            string reward = null,
            int columns = 0,
            double threshold = RewardFormulas.DefaultThreshold,
            int maxDecisions = 2500,
            double rewardThreshold = -100.0,
            bool faithfulTerminal = false,
            string split = "train")
        {
            Reward = reward;
            Columns = columns;
            Threshold = threshold;
            MaxDecisions = maxDecisions;
            RewardThreshold = rewardThreshold;
            FaithfulTerminal = faithfulTerminal;
            Split = split;
        }

        /// <summary>Name of the reward formula; null: the profile's. Parameter `reward_type`, by number.</summary>
        public string Reward { get; }

        /// <summary>How many leading components count; 0: all. Parameter `columns`.</summary>
        public int Columns { get; }

        /// <summary>Error strictly below which a component counts as right. Parameter `threshold`.</summary>
        public double Threshold { get; }

        /// <summary>Decisions after which an episode is cut; 0: never. Parameter `max_decisions`.</summary>
        public int MaxDecisions { get; }

        /// <summary>An episode whose reward falls to this has ended. Parameter `reward_threshold`.</summary>
        public double RewardThreshold { get; }

        /// <summary>Report a cut as a real end, as Tau does. Parameter `faithful_terminal`, 0 or 1.</summary>
        public bool FaithfulTerminal { get; }

        /// <summary>Rows to draw from: `train` or `evaluation`. Parameter `split`, 0 or 1.</summary>
        public string Split { get; }

        /// <summary>These rules with the environment parameters that are set.</summary>
        /// <param name="parameter">The value of the parameter with this name; null: it is not set.</param>
        /// <exception cref="TauException">A value means nothing.</exception>
        public TauRules Updated(Func<string, float?> parameter)
        {
            var reward = Read(parameter, "reward_type");
            var split = Read(parameter, "split");
            var columns = Read(parameter, "columns");
            var terminal = Read(parameter, "faithful_terminal");
            return new TauRules(
                reward.HasValue ? RewardFormulas.NameByIndex(reward.Value) : Reward,
                columns.HasValue ? ColumnsOf(columns.Value) : Columns,
                Read(parameter, "threshold") ?? Threshold,
                Whole(Read(parameter, "max_decisions") ?? MaxDecisions),
                Read(parameter, "reward_threshold") ?? RewardThreshold,
                terminal.HasValue ? terminal.Value != 0f : FaithfulTerminal,
                split.HasValue ? SplitOf(split.Value) : Split);
        }

        /// <summary>Says whether a game of this profile can be played by these rules.</summary>
        /// <exception cref="TauException">It cannot; the sentence names the rule.</exception>
        public void Check(TauProfile profile)
        {
            if (Columns < 0 || Columns > profile.ActionSize)
            {
                throw new TauException(
                    FormattableString.Invariant($"`columns` is {Columns}, but profile `{profile.Name}` ")
                    + FormattableString.Invariant($"has the columns 1 to {profile.ActionSize}."));
            }
            if (!(Threshold > 0.0))
            {
                throw new TauException(
                    $"`threshold` is {PythonText.General(Threshold)}; give a number greater than 0.");
            }
            if (MaxDecisions < 0)
            {
                throw new TauException(FormattableString.Invariant(
                    $"`max_decisions` is {MaxDecisions}; give 0 (no limit) or more."));
            }
            if (Split != "train" && Split != "evaluation")
            {
                throw new TauException($"`split` is `{Split}`; give `train` or `evaluation`.");
            }
            RewardFormulas.Get(Reward ?? profile.Reward);
        }

        private static float? Read(Func<string, float?> parameter, string name)
        {
            var value = parameter(name);
            if (value.HasValue && (float.IsNaN(value.Value) || float.IsInfinity(value.Value)))
            {
                throw new TauException(
                    $"Environment parameter `{name}` is {PythonText.General(value.Value)}; give a finite number.");
            }
            return value;
        }

        private static int ColumnsOf(float value)
        {
            var columns = Whole(value);
            return columns >= 1
                ? columns
                : throw new TauException(
                    $"Environment parameter `columns` is {PythonText.General(value)}; give 1 or more.");
        }

        private static string SplitOf(float value)
        {
            if (value != 0f && value != 1f)
            {
                throw new TauException(
                    $"Environment parameter `split` is {PythonText.General(value)}; use 0 (train) or 1 (evaluation).");
            }
            return value == 0f ? "train" : "evaluation";
        }

        /// <summary>The whole part of a number, at the limits of int where it lies beyond them.</summary>
        private static int Whole(double value)
        {
            return (int)Math.Max(int.MinValue, Math.Min(int.MaxValue, value));
        }
    }
}
