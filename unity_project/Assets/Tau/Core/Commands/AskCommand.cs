namespace Tau.Core
{
    /// <summary>`ask QUESTION`: what does the model answer?</summary>
    public sealed class AskCommand : ConsoleCommand
    {
        internal AskCommand(string rest)
        {
            var quoted = rest.Length > 1 && rest[0] == '"' && rest[rest.Length - 1] == '"';
            Question = (quoted ? rest.Substring(1, rest.Length - 2) : rest).Trim();
            if (Question.Length == 0)
            {
                throw new TauException("`ask` needs a question; type `ask What is three plus four?`.");
            }
        }

        /// <summary>The question, without blanks and double quotes around it.</summary>
        public string Question { get; }
    }
}
