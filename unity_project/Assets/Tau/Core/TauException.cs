using System;

namespace Tau.Core
{
    /// <summary>A mistake with a remedy: one sentence that says what is wrong, where, and what to do.</summary>
    public sealed class TauException : Exception
    {
        /// <summary>A mistake told in one sentence.</summary>
        public TauException(string sentence)
            : base(sentence)
        {
        }
    }
}
