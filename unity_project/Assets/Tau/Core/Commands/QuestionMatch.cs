namespace Tau.Core
{
    /// <summary>The known question that stands in for one that somebody typed.</summary>
    public sealed class QuestionMatch
    {
        internal QuestionMatch(string question, string answer, float[] vector, double score, bool exact)
        {
            Question = question;
            Answer = answer;
            Vector = vector;
            Score = score;
            Exact = exact;
        }

        /// <summary>The known question, as the data set writes it.</summary>
        public string Question { get; }

        /// <summary>The data set's answer to it; null: a text with an embedding, but no row's question.</summary>
        public string Answer { get; }

        /// <summary>Its embedding, 384 numbers, to be shown to the policy; must not be changed.</summary>
        public float[] Vector { get; }

        /// <summary>How alike both questions are written, 0 to 1.</summary>
        public double Score { get; }

        /// <summary>
        /// Whether they are the same text. Where they are not, the policy answers <see cref="Question"/> and nothing
        /// else: a game has no text encoder, and whoever typed must be told.
        /// </summary>
        public bool Exact { get; }
    }
}
