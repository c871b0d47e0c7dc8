using System;

namespace Tau.Core
{
    /// <summary>What somebody typed at the game's console, understood. Immutable.</summary>
    public abstract class ConsoleCommand
    {
        private static readonly string[] Verbs = { "training", "ask", "evaluate", "help" };
        private static readonly string[] TrainingVerbs = { "agent", "status", "cancel", "help" };
        private static readonly char[] Blanks = { ' ', '\t' };

        private protected ConsoleCommand()
        {
        }

        /// <summary>
        /// Understands one line. Verbs may be written in any case; names of files keep theirs, and stand in quotes
        /// where they hold blanks. A question is taken as it stands, apostrophes and all.
        /// </summary>
        /// <returns>
        /// <see cref="TrainCommand"/>, <see cref="StatusCommand"/>, <see cref="CancelCommand"/>,
        /// <see cref="AskCommand"/>, <see cref="EvaluateCommand"/> or <see cref="HelpCommand"/>.
        /// </returns>
        /// <exception cref="TauException">The line is no command; the sentence says what to type.</exception>
        public static ConsoleCommand Parse(string line)
        {
            var text = (line ?? throw new ArgumentNullException(nameof(line))).Trim();
            var verb = FirstWord(text, out var rest);
            switch (verb.ToLowerInvariant())
            {
                case "":
                    throw new TauException("There is no command; type `help` for a list.");
                case "training":
                    return ParseTraining(rest);
                case "ask":
                    return new AskCommand(rest);
                case "evaluate":
                    return Alone(rest, "evaluate", new EvaluateCommand());
                case "help":
                    return Alone(rest, "help", new HelpCommand(null));
                default:
                    throw Unknown("command", verb, Verbs, "help");
            }
        }

        private static ConsoleCommand ParseTraining(string text)
        {
            var verb = FirstWord(text, out var rest);
            switch (verb.ToLowerInvariant())
            {
                case "":
                    throw new TauException("`training` needs to know what to do; type `training help` for a list.");
                case "agent":
                    return TrainCommand.ParseAgent(CommandWords.Split(rest));
                case "status":
                    return Alone(rest, "training status", new StatusCommand());
                case "cancel":
                    return Alone(rest, "training cancel", new CancelCommand());
                case "help":
                    return Alone(rest, "training help", new HelpCommand("training"));
                default:
                    throw Unknown("`training` command", verb, TrainingVerbs, "training help");
            }
        }

        /// <summary>A word that stands for nothing, and what may have been meant.</summary>
        internal static TauException Unknown(string kind, string word, string[] known, string help)
        {
            return new TauException(
                $"There is no {kind} `{word}`" + Spelling.Hint(word, known, $"; type `{help}` for a list."));
        }

        private static ConsoleCommand Alone(string rest, string words, ConsoleCommand command)
        {
            return rest.Length == 0
                ? command
                : throw new TauException($"`{words}` stands alone, but `{rest}` follows; leave it out.");
        }

        private static string FirstWord(string text, out string rest)
        {
            var end = text.IndexOfAny(Blanks);
            rest = end < 0 ? string.Empty : text.Substring(end).Trim();
            return end < 0 ? text : text.Substring(0, end);
        }
    }
}
