namespace Tau.Core
{
    /// <summary>`help` or `training help`.</summary>
    public sealed class HelpCommand : ConsoleCommand
    {
        /// <summary>All commands, one a line.</summary>
        public const string AllText =
            TrainingText + "\n"
            + "ask QUESTION              the model's answer to a question of the data set\n"
            + "evaluate                  show the model every held-out row once\n"
            + "help                      this list";

        /// <summary>The commands that begin with `training`, one a line.</summary>
        public const string TrainingText =
            "training agent tau FILE --agents N [--max-concurrent M] [--profile P] [--decisions D]\n"
            + "                          train N agents on a Tau JSON file, M at a time, D decisions each\n"
            + "training status           the central report: every pair's state, counts and means\n"
            + "training cancel           end all pairs, now\n"
            + "training help             the commands that begin with `training`";

        internal HelpCommand(string topic)
        {
            Topic = topic;
        }

        /// <summary>`training`; null: everything.</summary>
        public string Topic { get; }

        /// <summary>The text to show.</summary>
        public string Text => Topic == null ? AllText : TrainingText;
    }
}
