namespace Tau.Core
{
    /// <summary>One user text and the answer to it, with their keys worked out once.</summary>
    internal sealed class TauPair
    {
        public TauPair(string prompt, string answer, string domain, string section, int row)
        {
            Prompt = prompt;
            PromptKey = TextKey.Of(prompt);
            Answer = answer;
            AnswerKey = TextKey.Of(answer);
            Domain = domain;
            Section = section;
            Row = row;
        }

        public string Prompt { get; }

        public string PromptKey { get; }

        public string Answer { get; }

        public string AnswerKey { get; }

        public string Domain { get; }

        public string Section { get; }

        public int Row { get; }
    }
}
