namespace Tau.Engine
{
    /// <summary>Why a call got no answer.</summary>
    internal enum CallFailure
    {
        /// <summary>The connection broke: the other side is gone.</summary>
        Lost,

        /// <summary>The server answered with an error of gRPC's.</summary>
        Refused,

        /// <summary>The server sent bytes that are not gRPC over HTTP/2.</summary>
        Unreadable,
    }
}
