using System;

namespace Tau.Engine
{
    /// <summary>The trainer's end of the connection is closed: a normal end of an engine.</summary>
    internal sealed class TrainerGoneException : Exception
    {
        /// <summary>Why, in a few words.</summary>
        public TrainerGoneException(string words, Exception inner)
            : base(words, inner)
        {
        }
    }
}
