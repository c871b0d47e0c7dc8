using System;

namespace Tau.Trainer
{
    /// <summary>
    /// A problem that the user can solve. The message is one sentence: what is wrong, and what to do.
    /// </summary>
    public sealed class TrainerException : Exception
    {
        /// <summary>A problem with this sentence.</summary>
        public TrainerException(string message)
            : base(message)
        {
        }
    }
}
