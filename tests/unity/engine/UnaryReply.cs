using System;

namespace Tau.Engine
{
    /// <summary>The answer to one unary call while it arrives: gRPC's message, and the status after it.</summary>
    internal sealed class UnaryReply
    {
        /// <summary>Bytes before a gRPC message: compressed or not, and its length.</summary>
        public const int MessageHead = 5;

        private readonly ByteQueue _body = new ByteQueue();
        private readonly ByteQueue _block = new ByteQueue();
        private bool _lastBlock;
        private int _status;
        private string _words = string.Empty;

        /// <summary>Whether the server has said all of it.</summary>
        public bool Done { get; private set; } = true;

        /// <summary>Expect the next answer.</summary>
        public void Begin()
        {
            _body.Clear();
            _block.Clear();
            _status = -1;
            _words = string.Empty;
            Done = false;
        }

        /// <summary>Expect nothing more.</summary>
        public void Abandon()
        {
            Done = true;
        }

        /// <summary>A DATA frame of this call.</summary>
        /// <exception cref="CallException">It cannot be read.</exception>
        public void OnData(Http2Frame frame)
        {
            _body.Append(frame.Content());
            Done |= frame.Has(Http2Frames.EndStream);
        }

        /// <summary>
        /// A HEADERS or CONTINUATION frame of this call: before the message, or with the status after it.
        /// </summary>
        /// <exception cref="CallException">It cannot be read.</exception>
        public void OnHeaders(Http2Frame frame)
        {
            if (frame.Kind == Http2Frames.Headers)
            {
                _block.Clear();
                _lastBlock = frame.Has(Http2Frames.EndStream);
            }

            _block.Append(frame.Kind == Http2Frames.Headers ? frame.Content() : frame.Payload);
            if (_lastBlock && frame.Has(Http2Frames.EndHeaders))
            {
                _status = HeaderBlock.GrpcStatus(_block.Bytes);
                _words = _status > 0 ? HeaderBlock.GrpcMessage(_block.Bytes) : string.Empty;
                Done = true;
            }
        }

        /// <summary>The message of a complete answer, valid until the next call.</summary>
        /// <exception cref="CallException">There is none, or not just one.</exception>
        public ArraySegment<byte> Message()
        {
            if (_status > 0 || _body.Count == 0)
            {
                var said = _words.Length > 0 ? ": " + _words : string.Empty;
                throw new CallException(CallFailure.Refused, "the server refused the call" + said, _status);
            }

            var bytes = _body.Bytes;
            if (bytes.Count < MessageHead || bytes.Array[bytes.Offset] != 0 ||
                Http2Frames.ReadUInt32(bytes.Array, bytes.Offset + 1) != bytes.Count - MessageHead)
            {
                throw new CallException(CallFailure.Unreadable, "its reply is compressed, cut short, or not alone");
            }

            return bytes.Slice(MessageHead);
        }
    }
}
