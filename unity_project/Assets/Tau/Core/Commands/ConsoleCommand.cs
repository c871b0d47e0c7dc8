using System;
using System.Collections.Generic;
using System.Linq;
using System.Text.RegularExpressions;

namespace Tau.Core
{
    /// <summary>A parsed command from the game's console. Immutable.</summary>
    public abstract class ConsoleCommand
    {
        private static readonly string[] Verbs = { "training", "ask", "evaluate", "help" };
        private static readonly string[] TrainingVerbs = { "agent", "status", "cancel", "help" };
        private static readonly Regex Word = new Regex("\"([^\"]*)\"|'([^']*)'|([^\\s\"']\\S*)");

        /// <summary>
        /// Parses one line. Commands are not case-sensitive; file names are. A file name with spaces needs quotes. A
        /// question is used as typed, including apostrophes.
        /// </summary>
        /// <exception cref="TauException">The line is not a command; the sentence says what to type.</exception>
        public static ConsoleCommand Parse(string line)
        {
            var verb = FirstWord(line, out var rest);
            switch (verb)
            {
                case "training":
                    return ParseTraining(rest);
                case "ask":
                    return new AskCommand(rest);
                case "evaluate":
                    return Alone(rest, new EvaluateCommand());
                case "help":
                    return Alone(rest, new HelpCommand(HelpCommand.AllText));
                default:
                    throw Unknown("command", verb, Verbs, "help");
            }
        }

        private static ConsoleCommand ParseTraining(string text)
        {
            var verb = FirstWord(text, out var rest);
            switch (verb)
            {
                case "agent":
                    return new TrainCommand(Word.Matches(rest).Cast<Match>().Select(Unquoted).ToList());
                case "status":
                    return Alone(rest, new StatusCommand());
                case "cancel":
                    return Alone(rest, new CancelCommand());
                case "help":
                    return Alone(rest, new HelpCommand(HelpCommand.TrainingText));
                default:
                    throw Unknown("`training` command", verb, TrainingVerbs, "training help");
            }
        }

        /// <summary>The error for an unknown word, with a suggestion.</summary>
        internal static TauException Unknown(string kind, string word, IEnumerable<string> known, string help)
        {
            return new TauException(
                $"There is no {kind} `{word}`" + Spelling.Hint(word, known, $"; type `{help}` for a list."));
        }

        private static ConsoleCommand Alone(string rest, ConsoleCommand command)
        {
            return rest.Length == 0 ? command : throw new TauException(
                $"This command takes no arguments, but `{rest}` follows; omit it.");
        }

        private static string FirstWord(string text, out string rest)
        {
            var parts = text.Trim().Split(new[] { ' ', '\t' }, 2);
            rest = parts.Length > 1 ? parts[1].Trim() : string.Empty;
            return parts[0].ToLowerInvariant();
        }

        private static string Unquoted(Match word)
        {
            return word.Groups[1].Value + word.Groups[2].Value + word.Groups[3].Value;
        }
    }

    /// <summary>`training status`: the central report.</summary>
    public sealed class StatusCommand : ConsoleCommand
    {
    }

    /// <summary>`training cancel`: end all pairs, now.</summary>
    public sealed class CancelCommand : ConsoleCommand
    {
    }

    /// <summary>`evaluate`: show the model every held-out row once.</summary>
    public sealed class EvaluateCommand : ConsoleCommand
    {
    }

    /// <summary>`ask QUESTION`: what does the model answer?</summary>
    public sealed class AskCommand : ConsoleCommand
    {
        internal AskCommand(string rest)
        {
            Question = rest.Trim('"', ' ');
            if (Question.Length == 0)
            {
                throw new TauException("`ask` needs a question; type `ask What is three plus four?`.");
            }
        }

        /// <summary>The question, without surrounding spaces and double quotes.</summary>
        public string Question { get; }
    }

    /// <summary>`help` or `training help`.</summary>
    public sealed class HelpCommand : ConsoleCommand
    {
        internal const string TrainingText =
            "training agent tau FILE --agents N [--max-concurrent M] [--profile P] [--decisions D]\n"
            + "                          train N agents on an exported data set (tau.tau is built in),\n"
            + "                          M at a time, D decisions each\n"
            + "training status           the central report: every pair's state, counts and means\n"
            + "training cancel           end all pairs, now\n"
            + "training help             the commands that start with `training`";

        internal const string AllText =
            TrainingText + "\n"
            + "ask QUESTION              the model's answer to a question of the data set\n"
            + "evaluate                  show the model every held-out row once\n"
            + "help                      this list";

        internal HelpCommand(string text)
        {
            Text = text;
        }

        /// <summary>The text to show: one command per line.</summary>
        public string Text { get; }
    }

    /// <summary>`training agent tau FILE --agents N [--max-concurrent M] [--profile P] [--decisions D]`.</summary>
    public sealed class TrainCommand : ConsoleCommand
    {
        private static readonly string[] Flags = { "--agents", "--max-concurrent", "--profile", "--decisions" };

        internal TrainCommand(IReadOnlyList<string> words)
        {
            var kind = words.FirstOrDefault();
            var flags = new FlagList(words.Skip(1).ToList(), Flags);
            var strange = flags.Rest.FirstOrDefault(word => word.StartsWith("-", StringComparison.Ordinal));
            if (kind == null || kind.ToLowerInvariant() != "tau")
            {
                throw Unknown("kind of agent", kind, new[] { "tau" }, "training help");
            }
            if (strange != null)
            {
                throw Unknown("flag", strange.Split('=')[0], Flags, "training help");
            }
            if (flags.Rest.Count != 1 || flags["--agents"] == null)
            {
                throw new TauException(
                    "`training agent tau` needs one data file and the number of agents; type "
                    + "`training agent tau FILE --agents N`, and put a name with spaces in quotes.");
            }
            var arguments = new List<string> { "--tau-data=" + flags.Rest[0] };
            foreach (var flag in Flags.Where(flag => flags[flag] != null))
            {
                arguments.Add("--tau-" + flag.Substring(2) + "=" + flags[flag]);
            }
            Options = TauOptions.Parse(arguments);
        }

        /// <summary>The options, as on the command line of a build.</summary>
        public TauOptions Options { get; }
    }
}
