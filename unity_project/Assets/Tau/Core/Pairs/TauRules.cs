using System;

namespace Tau.Core
{
    /// <summary>
    /// Rules that can change while a Tau game runs; each is also an environment parameter. Immutable. Rules, names and
    /// defaults are those of the trainer's headless scene.
    /// </summary>
    public sealed class TauRules
    {
        /// <summary>Rules without validation: see <see cref="Check"/>.</summary>
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

        /// <summary>Number of leading components that count; 0: all. Parameter `columns`.</summary>
        public int Columns { get; }

        /// <summary>Error strictly below which a component counts as right. Parameter `threshold`.</summary>
        public double Threshold { get; }

        /// <summary>Decisions after which an episode is cut; 0: never. Parameter `max_decisions`.</summary>
        public int MaxDecisions { get; }

        /// <summary>An episode ends if its reward falls to this value. Parameter `reward_threshold`.</summary>
        public double RewardThreshold { get; }

        /// <summary>Report a cut as a real end, as Tau does. Parameter `faithful_terminal`, 0 or 1.</summary>
        public bool FaithfulTerminal { get; }

        /// <summary>Rows to draw from: `train` or `evaluation`. Parameter `split`, 0 or 1.</summary>
        public string Split { get; }

        /// <summary>These rules, changed by the environment parameters that are set.</summary>
        /// <param name="parameter">The value of the parameter with this name; null: it is not set.</param>
        /// <exception cref="TauException">A value is invalid.</exception>
        public TauRules Updated(Func<string, float?> parameter)
        {
            return new TauRules(
                parameter("reward_type") is float reward ? RewardFormulas.NameByIndex(reward) : Reward,
                parameter("columns") is float columns ? Whole("columns", columns, 1) : Columns,
                parameter("threshold") ?? Threshold,
                parameter("max_decisions") is float most ? Whole("max_decisions", most, 0) : MaxDecisions,
                parameter("reward_threshold") ?? RewardThreshold,
                parameter("faithful_terminal") is float faithful ? faithful != 0f : FaithfulTerminal,
                parameter("split") is float part ? (Whole("split", part, 0, 1) == 0 ? "train" : "evaluation") : Split);
        }

        /// <summary>Checks that these rules fit a profile.</summary>
        /// <exception cref="TauException">They do not; the sentence names the rule.</exception>
        public void Check(TauProfile profile)
        {
            if (Columns < 0 || Columns > profile.ActionSize)
            {
                throw new TauException(FormattableString.Invariant(
                    $"`columns` is {Columns}, but profile `{profile.Name}` has columns 1 to {profile.ActionSize}."));
            }
            if (!(Threshold > 0.0) || double.IsInfinity(Threshold))
            {
                throw new TauException(FormattableString.Invariant(
                    $"`threshold` is {Threshold}; give a finite number greater than 0."));
            }
            if (double.IsNaN(RewardThreshold) || double.IsPositiveInfinity(RewardThreshold))
            {
                throw new TauException("`reward_threshold` would end every episode; give a finite number.");
            }
            RewardFormulas.Get(Reward ?? profile.Reward);
        }

        private static int Whole(string name, float value, int least, int most = 1000000000)
        {
            return value >= least && value <= most ? (int)value : throw new TauException(
                FormattableString.Invariant($"Environment parameter `{name}` is {value}; give {least} to {most}."));
        }
    }
}
