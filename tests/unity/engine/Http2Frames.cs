using System.IO;
using System.Text;

namespace Tau.Engine
{
    /// <summary>
    /// Numbers of HTTP/2 (RFC 9113, sections 4 to 6) and the bytes that a client of one method sends.
    /// </summary>
    internal static class Http2Frames
    {
        // Kinds of frames (RFC 9113, section 6).
        public const int Data = 0;
        public const int Headers = 1;
        public const int ResetStream = 3;
        public const int Settings = 4;
        public const int PushPromise = 5;
        public const int Ping = 6;
        public const int GoAway = 7;
        public const int WindowUpdate = 8;
        public const int Continuation = 9;

        // Flags; their meaning depends on the kind.
        public const int EndStream = 0x1;
        public const int Acknowledge = 0x1;
        public const int EndHeaders = 0x4;
        public const int Padded = 0x8;
        public const int Priority = 0x20;

        // Settings (RFC 9113, 6.5.2).
        public const int HeaderTableSize = 0x1;
        public const int EnablePush = 0x2;
        public const int InitialWindowSize = 0x4;
        public const int MaxFrameSize = 0x5;

        /// <summary>The error code of a call that is given up.</summary>
        public const int Cancel = 0x8;

        /// <summary>Bytes of a frame before its payload.</summary>
        public const int HeadSize = 9;

        /// <summary>A window nobody has changed, in bytes.</summary>
        public const int DefaultWindow = 65_535;

        /// <summary>The widest window; also the mask of stream ids, whose top bit is reserved.</summary>
        public const int LargestWindow = int.MaxValue;

        /// <summary>Bytes of payload that every end must take in one frame.</summary>
        public const int DefaultFrame = 16_384;

        /// <summary>Bytes of payload that this client takes in one frame: the most the format can say.</summary>
        public const int LargestFrame = (1 << 24) - 1;

        /// <summary>
        /// The first bytes of a connection: preface, settings, and the widest window for the connection.
        /// </summary>
        public static byte[] Hello()
        {
            var bytes = new MemoryStream();
            bytes.Write(Encoding.ASCII.GetBytes("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"));
            var settings = new[]
            {
                (HeaderTableSize, 0), (EnablePush, 0), (InitialWindowSize, LargestWindow), (MaxFrameSize, LargestFrame),
            };
            var frame = new byte[HeadSize + 6 * settings.Length];
            WriteHead(frame, 0, 6 * settings.Length, Settings, 0, 0);
            for (var i = 0; i < settings.Length; i++)
            {
                var at = HeadSize + 6 * i;
                frame[at] = 0;
                frame[at + 1] = (byte)settings[i].Item1;
                WriteUInt32(frame, at + 2, (uint)settings[i].Item2);
            }

            bytes.Write(frame);
            bytes.Write(WithNumber(WindowUpdate, 0, LargestWindow - DefaultWindow));
            return bytes.ToArray();
        }

        /// <summary>
        /// The header block of a unary gRPC call: no Huffman coding, no dynamic table (RFC 7541, 6.2.2).
        /// </summary>
        public static byte[] RequestHeaders(string path, string authority)
        {
            var bytes = new MemoryStream();
            bytes.WriteByte(0x83); // `:method: POST` of the static table
            bytes.WriteByte(0x86); // `:scheme: http` of the static table
            WriteLiteral(bytes, ":path", path);
            WriteLiteral(bytes, ":authority", authority);
            WriteLiteral(bytes, "te", "trailers");
            WriteLiteral(bytes, "content-type", "application/grpc");
            return bytes.ToArray();
        }

        /// <summary>A frame whose payload is one number of 32 bits.</summary>
        public static byte[] WithNumber(int kind, int stream, int number)
        {
            var frame = new byte[HeadSize + 4];
            WriteHead(frame, 0, 4, kind, 0, stream);
            WriteUInt32(frame, HeadSize, (uint)number);
            return frame;
        }

        /// <summary>Write a frame's head at <paramref name="at"/>.</summary>
        public static void WriteHead(byte[] target, int at, int length, int kind, int flags, int stream)
        {
            target[at] = (byte)(length >> 16);
            target[at + 1] = (byte)(length >> 8);
            target[at + 2] = (byte)length;
            target[at + 3] = (byte)kind;
            target[at + 4] = (byte)flags;
            WriteUInt32(target, at + 5, (uint)stream);
        }

        /// <summary>Write a number with its highest byte first.</summary>
        public static void WriteUInt32(byte[] target, int at, uint number)
        {
            target[at] = (byte)(number >> 24);
            target[at + 1] = (byte)(number >> 16);
            target[at + 2] = (byte)(number >> 8);
            target[at + 3] = (byte)number;
        }

        /// <summary>Read a number with its highest byte first.</summary>
        public static uint ReadUInt32(byte[] source, int at)
        {
            return (uint)(source[at] << 24 | source[at + 1] << 16 | source[at + 2] << 8 | source[at + 3]);
        }

        private static void WriteLiteral(Stream bytes, string name, string value)
        {
            bytes.WriteByte(0);
            bytes.WriteByte((byte)name.Length); // both are shorter than 127 bytes
            bytes.Write(Encoding.ASCII.GetBytes(name));
            bytes.WriteByte((byte)value.Length);
            bytes.Write(Encoding.ASCII.GetBytes(value));
        }
    }
}
