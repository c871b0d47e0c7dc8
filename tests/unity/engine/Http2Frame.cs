using System;

namespace Tau.Engine
{
    /// <summary>One frame that came in (RFC 9113, 4.1).</summary>
    internal readonly struct Http2Frame
    {
        /// <summary>A frame; <paramref name="payload"/> is valid until the next one is read.</summary>
        public Http2Frame(int kind, int flags, int stream, ArraySegment<byte> payload)
        {
            Kind = kind;
            Flags = flags;
            Stream = stream;
            Payload = payload;
        }

        /// <summary>One of the kinds of <see cref="Http2Frames"/>, or an unknown one.</summary>
        public int Kind { get; }

        /// <summary>Bits whose meaning depends on the kind.</summary>
        public int Flags { get; }

        /// <summary>The call that it belongs to; 0: the connection.</summary>
        public int Stream { get; }

        /// <summary>What it carries.</summary>
        public ArraySegment<byte> Payload { get; }

        /// <summary>Whether a flag is set.</summary>
        public bool Has(int flag)
        {
            return (Flags & flag) != 0;
        }

        /// <summary>The number of 32 bits at <paramref name="at"/>, without its top bit.</summary>
        public int Number(int at)
        {
            return (int)(Http2Frames.ReadUInt32(Payload.Array, Payload.Offset + at) & Http2Frames.LargestWindow);
        }

        /// <summary>The number of 16 bits at <paramref name="at"/>.</summary>
        public int ShortNumber(int at)
        {
            return Payload.Array[Payload.Offset + at] << 8 | Payload.Array[Payload.Offset + at + 1];
        }

        /// <summary>The payload of DATA or HEADERS without padding and priority (RFC 9113, 6.1 and 6.2).</summary>
        /// <exception cref="CallException">It is padded beyond its length.</exception>
        public ArraySegment<byte> Content()
        {
            var skip = Has(Http2Frames.Padded) ? 1 : 0;
            var padding = skip == 1 && Payload.Count > 0 ? Payload.Array[Payload.Offset] : 0;
            skip += Kind == Http2Frames.Headers && Has(Http2Frames.Priority) ? 5 : 0;
            var size = Payload.Count - skip - padding;
            return size >= 0
                ? Payload.Slice(skip, size)
                : throw new CallException(CallFailure.Unreadable, "a frame is padded beyond its length");
        }

        /// <summary>Check that a frame about the connection has a size that its kind can have.</summary>
        /// <exception cref="CallException">It has not.</exception>
        public void CheckSize()
        {
            var size = Payload.Count;
            var right = true;
            switch (Kind)
            {
                case Http2Frames.WindowUpdate:
                case Http2Frames.ResetStream:
                    right = size == 4;
                    break;
                case Http2Frames.Ping:
                    right = size == 8;
                    break;
                case Http2Frames.Settings:
                    right = size % 6 == 0;
                    break;
                case Http2Frames.GoAway:
                    right = size >= 8;
                    break;
            }

            if (!right)
            {
                throw new CallException(CallFailure.Unreadable, "a frame of kind " + Kind + " has " + size + " bytes");
            }
        }
    }
}
