using System;
using System.Collections.Generic;
using System.Linq;

namespace Tau.Core
{
    /// <summary>
    /// What a build is told on its command line, so that it needs nobody at a console. Immutable. Flags may be written
    /// "--flag value" or "--flag=value"; arguments of others (the engine's, ML-Agents') are ignored.
    /// </summary>
    public sealed class TauOptions
    {
        /// <summary>Decisions of a pair's run where pairs take turns and nothing else was asked for.</summary>
        public const long DefaultDecisions = 10000;

        /// <summary>Most pairs of one game, as in the headless engine.</summary>
        public const int MostPairs = 1000000;

        /// <summary>The flags with their meaning, one a line.</summary>
        public const string HelpText =
            "--tau-pairs N              agents with a trainer each (also --tau-agents N)\n"
            + "--tau-max-concurrent M     how many of them train at the same time (all)\n"
            + "--tau-decisions D          decisions of a pair's run, 0: no end (0; 10000 where M < N)\n"
            + "--tau-data FILE            a Tau JSON file, its vectors beside it (the one that comes with the game)\n"
            + "--tau-profile P            tau3 or tau384 (tau3)\n"
            + "--tau-scene S              tau, balance or inference\n"
            + "--tau-seed S               where the streams of prompts start\n"
            + "--tau-target-sensor        also send the answer's vector\n"
            + "--tau-reward R             binary, difference, incremental, binary_strict or binary01 (profile's)\n"
            + "--tau-columns N            leading components that count (all)\n"
            + "--tau-threshold X          error below which a component is right (0.1)\n"
            + "--tau-max-decisions N      limit of an episode, 0: none (2500)\n"
            + "--tau-reward-threshold X   an episode whose reward falls to this ends (-100)\n"
            + "--tau-faithful-terminal    report limits as real ends, as Tau does\n"
            + "--tau-split S              train or evaluation (train)\n"
            + "--tau-aggregate A          mean, sum, any, all or majority of a window's binary rewards (mean)\n"
            + "--tau-window N             decisions in a window (1)\n"
            + "--tau-values V             01 or pm1: what failure and success are worth (01)";

        private const string Prefix = "--tau-";

        private static readonly string[] Switches = { "--tau-target-sensor", "--tau-faithful-terminal" };

        private static readonly string[] WithValue =
        {
            "--tau-pairs", "--tau-agents", "--tau-max-concurrent", "--tau-decisions", "--tau-data", "--tau-profile",
            "--tau-scene", "--tau-seed", "--tau-reward", "--tau-columns", "--tau-threshold", "--tau-max-decisions",
            "--tau-reward-threshold", "--tau-split", "--tau-aggregate", "--tau-window", "--tau-values",
        };

        private readonly FlagList _flags;

        private TauOptions(FlagList flags)
        {
            _flags = flags;
            Scene = flags.Get("--tau-scene", Choice("tau", "balance", "inference"), null);
            Data = flags.Get("--tau-data", FlagValue.Text, null);
            Profile = flags.Get("--tau-profile", Choice("tau3", "tau384"), "tau3");
            Pairs = ReadPairs(flags);
            MaxConcurrent = Count(flags, "--tau-max-concurrent", 1, MostPairs);
            Decisions = flags.Get("--tau-decisions", (flag, text) => FlagValue.Whole(flag, text, 0), 0L);
            Seed = flags.Get<long?>("--tau-seed", (flag, text) => FlagValue.Whole(flag, text, null), null);
            TargetSensor = Given("--tau-target-sensor");
            Aggregate = flags.Get("--tau-aggregate", Choice("mean", "sum", "any", "all", "majority"), "mean");
            Window = Count(flags, "--tau-window", 1, MostPairs) ?? 1;
            Values = flags.Get("--tau-values", Choice("01", "pm1"), "01");
            Rules = ReadRules(flags, Profile);
        }

        /// <summary>`tau`, `balance` or `inference`; null: the scene that is open.</summary>
        public string Scene { get; }

        /// <summary>A Tau JSON file; null: the one that comes with the game.</summary>
        public string Data { get; }

        /// <summary>`tau3` or `tau384`.</summary>
        public string Profile { get; }

        /// <summary>Agents with a trainer each; null: the scene's own number.</summary>
        public int? Pairs { get; }

        /// <summary>How many pairs train at the same time; null: all.</summary>
        public int? MaxConcurrent { get; }

        /// <summary>Decisions of a pair's run; 0: none given or without end. See <see cref="Quota(int)"/>.</summary>
        public long Decisions { get; }

        /// <summary>Whether agents also send the answer's vector.</summary>
        public bool TargetSensor { get; }

        /// <summary>Where the streams of prompts start; null: the trainer says.</summary>
        public long? Seed { get; }

        /// <summary>Rules of the game, checked against the profile.</summary>
        public TauRules Rules { get; }

        /// <summary>How binary rewards of a window are joined.</summary>
        public string Aggregate { get; }

        /// <summary>Decisions in a window, at least 1.</summary>
        public int Window { get; }

        /// <summary>`01` or `pm1`: what failure and success are worth.</summary>
        public string Values { get; }

        /// <summary>
        /// One sentence on arguments that begin like these flags and are none; null: there is none. They are ignored,
        /// yet a typing mistake should not train with a default unseen.
        /// </summary>
        public string IgnoredSentence { get; private set; }

        /// <summary>The options in these arguments.</summary>
        /// <exception cref="TauException">The value of a known flag is wrong or missing.</exception>
        public static TauOptions Parse(IReadOnlyList<string> args)
        {
            var flags = new FlagList(args ?? throw new ArgumentNullException(nameof(args)), WithValue, Switches);
            var options = new TauOptions(flags) { IgnoredSentence = Ignored(flags.Rest) };
            if (options.Pairs.HasValue)
            {
                options.Quota(options.Pairs.Value);
            }
            return options;
        }

        /// <summary>Whether the flag stands on the command line, as --tau-pairs; its other name counts too.</summary>
        public bool Given(string flag)
        {
            var other = flag == "--tau-pairs" ? "--tau-agents" : flag == "--tau-agents" ? "--tau-pairs" : flag;
            return _flags[flag] != null || _flags[other] != null;
        }

        /// <summary>Decisions of each pair's run in a game of so many pairs; 0: until it is cancelled.</summary>
        /// <exception cref="TauException">Pairs take turns, yet none would ever end.</exception>
        public long Quota(int pairs)
        {
            return Quota(pairs, MaxConcurrent, Given("--tau-decisions") ? Decisions : (long?)null, "--tau-decisions");
        }

        /// <summary>The same for numbers from anywhere; <paramref name="flag"/> is named in the error.</summary>
        internal static long Quota(int pairs, int? maxConcurrent, long? decisions, string flag)
        {
            var turns = maxConcurrent.HasValue && maxConcurrent.Value < pairs;
            if (turns && decisions == 0)
            {
                throw new TauException(FormattableString.Invariant(
                    $"{flag}: 0 is without end, and with {maxConcurrent} of {pairs} pairs at a time the others would ")
                    + "never get their turn; give a number of decisions.");
            }
            return decisions ?? (turns ? DefaultDecisions : 0);
        }

        private static int? ReadPairs(FlagList flags)
        {
            var agents = Count(flags, "--tau-agents", 1, MostPairs);
            var pairs = Count(flags, "--tau-pairs", 1, MostPairs) ?? agents;
            if (agents.HasValue && agents != pairs)
            {
                throw new TauException(FormattableString.Invariant(
                    $"--tau-agents: {agents} contradicts --tau-pairs {pairs}, which is the same; give one of them."));
            }
            return pairs;
        }

        private static TauRules ReadRules(FlagList flags, string profile)
        {
            var usual = new TauRules();
            var rules = new TauRules(
                flags.Get("--tau-reward", Choice(RewardFormulas.Names.ToArray()), usual.Reward),
                Count(flags, "--tau-columns", 1, int.MaxValue) ?? usual.Columns,
                flags.Get("--tau-threshold", Number(1e-9), usual.Threshold),
                Count(flags, "--tau-max-decisions", 0, int.MaxValue) ?? usual.MaxDecisions,
                flags.Get("--tau-reward-threshold", Number(null), usual.RewardThreshold),
                flags["--tau-faithful-terminal"] != null,
                flags.Get("--tau-split", Choice("train", "evaluation"), usual.Split));
            rules.Check(TauProfile.Get(profile));
            return rules;
        }

        private static int? Count(FlagList flags, string name, int low, int high)
        {
            return flags.Get<int?>(name, (flag, text) => (int)FlagValue.Whole(flag, text, low, high), null);
        }

        private static Func<string, string, double> Number(double? low)
        {
            return (flag, text) => FlagValue.Number(flag, text, low);
        }

        private static Func<string, string, string> Choice(params string[] choices)
        {
            return (flag, text) => FlagValue.Choice(flag, text, choices);
        }

        private static string Ignored(IReadOnlyList<string> rest)
        {
            var sentences = rest.Where(argument => argument.StartsWith(Prefix, StringComparison.Ordinal))
                .Select(argument => argument.Split('=')[0])
                .Select(flag => $"`{flag}` is no flag of this game and is ignored"
                    + Spelling.Hint(flag, WithValue.Concat(Switches), ".")).ToArray();
            return sentences.Length == 0 ? null : string.Join(" ", sentences);
        }
    }
}
