using System;
using System.Collections.Generic;
using System.Linq;

namespace Tau.Core
{
    /// <summary>
    /// Options of a build from its command line, so that it needs no console. Immutable. Write flags as "--flag value"
    /// or "--flag=value"; other arguments (the engine's, ML-Agents') are ignored.
    /// </summary>
    public sealed class TauOptions
    {
        /// <summary>Default decisions of a pair's run if pairs take turns.</summary>
        public const long DefaultDecisions = 10000;

        /// <summary>Maximum pairs of one game, as in the headless engine.</summary>
        public const int MostPairs = 1000000;

        private static readonly string[] Switches = { "--tau-target-sensor", "--tau-faithful-terminal" };

        private static readonly string[] WithValue =
        {
            "--tau-pairs", "--tau-agents", "--tau-max-concurrent", "--tau-decisions", "--tau-data", "--tau-profile",
            "--tau-scene", "--tau-seed", "--tau-reward", "--tau-columns", "--tau-threshold", "--tau-max-decisions",
            "--tau-reward-threshold", "--tau-split", "--tau-aggregate", "--tau-window", "--tau-values",
        };

        private TauOptions(FlagList flags)
        {
            Scene = flags.Choice("--tau-scene", "tau", "balance", "inference");
            Data = flags.Text("--tau-data");
            Profile = flags.Choice("--tau-profile", "tau3", "tau384");
            Pairs = ReadPairs(flags);
            MaxConcurrent = (int?)flags.Whole("--tau-max-concurrent", 1, MostPairs);
            Decisions = flags.Whole("--tau-decisions", 0, long.MaxValue);
            Seed = flags.Whole("--tau-seed", long.MinValue, long.MaxValue);
            TargetSensor = flags["--tau-target-sensor"] != null;
            Aggregate = flags.Choice("--tau-aggregate", "mean", "sum", "any", "all", "majority") ?? "mean";
            Window = (int?)flags.Whole("--tau-window", 1, MostPairs) ?? 1;
            Values = flags.Choice("--tau-values", "01", "pm1") ?? "01";
            Rules = ReadRules(flags);
            IgnoredSentence = Ignored(flags.Rest);
        }

        /// <summary>`tau`, `balance` or `inference`; null: the open scene.</summary>
        public string Scene { get; }

        /// <summary>A file of `tau-train data export-unity`; null: the game's built-in data set.</summary>
        public string Data { get; }

        /// <summary>`tau3` or `tau384`; null: the game's own.</summary>
        public string Profile { get; }

        /// <summary>Number of agents, each with a trainer; null: the scene's number.</summary>
        public int? Pairs { get; }

        /// <summary>Number of pairs that train at the same time; null: all.</summary>
        public int? MaxConcurrent { get; }

        /// <summary>Decisions of a pair's run, 0: without end; null: see <see cref="Quota"/>.</summary>
        public long? Decisions { get; }

        /// <summary>Whether agents also send the answer's vector.</summary>
        public bool TargetSensor { get; }

        /// <summary>Seed of the prompts; null: the trainer's.</summary>
        public long? Seed { get; }

        /// <summary>Rules of the game.</summary>
        public TauRules Rules { get; }

        /// <summary>How binary rewards of a window are aggregated.</summary>
        public string Aggregate { get; }

        /// <summary>Decisions in a window, at least 1.</summary>
        public int Window { get; }

        /// <summary>`01` or `pm1`: the values of failure and success.</summary>
        public string Values { get; }

        /// <summary>
        /// A warning about arguments that look like these flags but are unknown; null if there are none. They are
        /// ignored, but the user should notice a typing mistake.
        /// </summary>
        public string IgnoredSentence { get; }

        /// <summary>The options in these arguments.</summary>
        /// <exception cref="TauException">The value of a known flag is wrong or missing.</exception>
        public static TauOptions Parse(IReadOnlyList<string> arguments)
        {
            return new TauOptions(new FlagList(arguments, WithValue, Switches));
        }

        /// <summary>Decisions of each pair's run if at most <paramref name="maxConcurrent"/> pairs run at a time; 0:
        /// unlimited.</summary> <exception cref="TauException">Pairs take turns, but none would ever end.</exception>
        public long Quota(int pairs, int maxConcurrent)
        {
            var turns = maxConcurrent < pairs;
            if (turns && Decisions == 0)
            {
                throw new TauException(FormattableString.Invariant(
                    $"Decisions 0 means no limit, and with {maxConcurrent} of {pairs} pairs at a time the ")
                    + "others would never get their turn; give a number of decisions.");
            }
            return Decisions ?? (turns ? DefaultDecisions : 0);
        }

        private static int? ReadPairs(FlagList flags)
        {
            var agents = flags.Whole("--tau-agents", 1, MostPairs);
            var pairs = flags.Whole("--tau-pairs", 1, MostPairs) ?? agents;
            return agents == null || agents == pairs ? (int?)pairs : throw new TauException(FormattableString.Invariant(
                $"--tau-agents: {agents} contradicts --tau-pairs {pairs}, which is the same; give only one."));
        }

        private static TauRules ReadRules(FlagList flags)
        {
            var usual = new TauRules();
            return new TauRules(
                flags.Choice("--tau-reward", RewardFormulas.Names.ToArray()),
                (int?)flags.Whole("--tau-columns", 1, TauProfile.EmbeddingSize) ?? usual.Columns,
                flags.Number("--tau-threshold") ?? usual.Threshold,
                (int?)flags.Whole("--tau-max-decisions", 0, int.MaxValue) ?? usual.MaxDecisions,
                flags.Number("--tau-reward-threshold") ?? usual.RewardThreshold,
                flags["--tau-faithful-terminal"] != null,
                flags.Choice("--tau-split", "train", "evaluation") ?? usual.Split);
        }

        private static string Ignored(IReadOnlyList<string> rest)
        {
            var sentences = rest.Where(argument => argument.StartsWith("--tau-", StringComparison.Ordinal))
                .Select(argument => argument.Split('=')[0])
                .Select(flag => $"`{flag}` is not a flag of this game and is ignored"
                    + Spelling.Hint(flag, WithValue.Concat(Switches), ".")).ToArray();
            return sentences.Length == 0 ? null : string.Join(" ", sentences);
        }
    }
}
