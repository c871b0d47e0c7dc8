namespace Tau.Core
{
    /// <summary>
    /// The usable rows of one section, as columns of equal length. The arrays are shared by everyone in the process:
    /// read them, never write to them.
    /// </summary>
    public sealed class TauSplit
    {
        internal TauSplit(string name, int count)
        {
            Name = name;
            Count = count;
            Prompts = new float[count][];
            AnswerIndex = new int[count];
            PromptText = new string[count];
            AnswerText = new string[count];
            Domain = new string[count];
            Row = new int[count];
        }

        /// <summary>`train` or `evaluation`.</summary>
        public string Name { get; }

        /// <summary>Number of rows.</summary>
        public int Count { get; }

        /// <summary>[Count][384]: prompt embeddings of unit length, the observations.</summary>
        public float[][] Prompts { get; }

        /// <summary>[Count]: position of each right answer in <see cref="TauDataset.Answers"/>.</summary>
        public int[] AnswerIndex { get; }

        /// <summary>[Count]: the prompts as written.</summary>
        public string[] PromptText { get; }

        /// <summary>[Count]: the answers as written in the row.</summary>
        public string[] AnswerText { get; }

        /// <summary>[Count]: the rows' domains.</summary>
        public string[] Domain { get; }

        /// <summary>[Count]: row in the file's section, counted from 1.</summary>
        public int[] Row { get; }
    }
}
