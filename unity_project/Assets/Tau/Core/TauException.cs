using System;

namespace Tau.Core
{
    /// <summary>An error that the user can fix: one sentence that says what is wrong, where, and what to do.</summary>
    public sealed class TauException : Exception
    {
        /// <summary>An error, described in one sentence.</summary>
        public TauException(string sentence)
            : base(sentence)
        {
        }
    }
}
