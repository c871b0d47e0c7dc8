using System;

namespace Tau.Engine
{
    /// <summary>A call that got no answer.</summary>
    internal sealed class CallException : Exception
    {
        /// <summary>A failure in a few words that continue a sentence.</summary>
        public CallException(CallFailure failure, string words, int status = -1, Exception inner = null)
            : base(words, inner)
        {
            Failure = failure;
            Status = status;
        }

        /// <summary>What kind of failure.</summary>
        public CallFailure Failure { get; }

        /// <summary>gRPC's status code of a call that was refused; -1 where none could be read.</summary>
        public int Status { get; }
    }
}
