namespace Tau.Core
{
    /// <summary>The usable rows of one section of a data set, as columns of equal length.</summary>
    public sealed class TauSplit
    {
        internal TauSplit(string[] questions, int[] answerIndex, float[][] prompts)
        {
            Questions = questions;
            AnswerIndex = answerIndex;
            Prompts = prompts;
        }

        /// <summary>Number of rows.</summary>
        public int Count => Questions.Length;

        /// <summary>The prompts as they are written.</summary>
        public string[] Questions { get; }

        /// <summary>Position of each right answer in <see cref="TauDataset.Answers"/>.</summary>
        public int[] AnswerIndex { get; }

        /// <summary>[Count][384]: the prompts' embeddings of unit length, the observations.</summary>
        public float[][] Prompts { get; }
    }
}
