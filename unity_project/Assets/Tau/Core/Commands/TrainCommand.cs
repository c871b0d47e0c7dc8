using System;
using System.Collections.Generic;
using System.Linq;

namespace Tau.Core
{
    /// <summary>`training agent tau FILE --agents N [--max-concurrent M] [--profile P] [--decisions D]`.</summary>
    public sealed class TrainCommand : ConsoleCommand
    {
        private const string Usage =
            "`training agent tau FILE --agents N [--max-concurrent M] [--profile P] [--decisions D]`";

        private static readonly string[] Kinds = { "tau" };
        private static readonly string[] Flags = { "--agents", "--max-concurrent", "--profile", "--decisions" };

        private TrainCommand(string file, FlagList flags)
        {
            File = FlagValue.Text("FILE", file);
            var most = (long)TauOptions.MostPairs;
            Agents = (int)FlagValue.Whole("--agents", flags["--agents"], 1, most);
            MaxConcurrent = flags.Get<int?>(
                "--max-concurrent", (flag, text) => (int)FlagValue.Whole(flag, text, 1, most), null);
            Profile = flags.Get("--profile", (flag, text) => FlagValue.Choice(flag, text, "tau3", "tau384"), null);
            Decisions = flags.Get<long?>("--decisions", (flag, text) => FlagValue.Whole(flag, text, 0), null);
            Quota = TauOptions.Quota(Agents, MaxConcurrent, Decisions, "--decisions");
        }

        /// <summary>The Tau JSON file, as it was typed.</summary>
        public string File { get; }

        /// <summary>How many pairs, at least 1.</summary>
        public int Agents { get; }

        /// <summary>How many of them train at the same time; null: all.</summary>
        public int? MaxConcurrent { get; }

        /// <summary>`tau3` or `tau384`; null: the game's.</summary>
        public string Profile { get; }

        /// <summary>Decisions of a pair's run as typed; null: not typed.</summary>
        public long? Decisions { get; }

        /// <summary>Decisions of a pair's run; 0: until it is cancelled.</summary>
        public long Quota { get; }

        /// <summary>The command from the words behind `training agent`.</summary>
        internal static TrainCommand ParseAgent(IReadOnlyList<string> words)
        {
            if (words.Count == 0)
            {
                throw new TauException($"`training agent` needs the kind of agent; type {Usage}.");
            }
            if (!string.Equals(words[0], Kinds[0], StringComparison.OrdinalIgnoreCase))
            {
                throw Unknown("kind of agent", words[0], Kinds, "training help");
            }
            var flags = new FlagList(words.Skip(1).ToArray(), Flags, Array.Empty<string>());
            foreach (var word in flags.Rest.Where(word => word.StartsWith("-", StringComparison.Ordinal)))
            {
                throw Unknown("flag", word.Split('=')[0], Flags, "training help");
            }
            if (flags.Rest.Count != 1)
            {
                var found = flags.Rest.Count == 0 ? "none" : string.Join(", ", flags.Rest.Select(file => $"`{file}`"));
                throw new TauException(
                    $"`training agent tau` needs one data file, but there is {found}; "
                    + "put a name with blanks in quotes.");
            }
            if (flags["--agents"] == null)
            {
                throw new TauException($"`training agent tau` needs the number of agents; type {Usage}.");
            }
            return new TrainCommand(flags.Rest[0], flags);
        }
    }
}
