using System;
using System.Globalization;
using System.Text;

namespace Tau.Engine
{
    /// <summary>
    /// Looks a header up in an HPACK block (RFC 7541) of a server that was told to use no dynamic table. Fields that
    /// are Huffman-coded are passed over: gRPC's servers write their status plainly.
    /// </summary>
    internal static class HeaderBlock
    {
        private const int LongestInteger = 1 << 24;
        private static readonly byte[] _status = Encoding.ASCII.GetBytes("grpc-status");
        private static readonly byte[] _message = Encoding.ASCII.GetBytes("grpc-message");

        /// <summary>gRPC's status code; -1 where the block says none that can be read.</summary>
        /// <exception cref="CallException">The block is no HPACK.</exception>
        public static int GrpcStatus(ReadOnlySpan<byte> block)
        {
            if (!TryFind(block, _status, out var value))
            {
                return -1;
            }

            var number = 0;
            foreach (var digit in value)
            {
                if (digit < '0' || digit > '9' || number > 1000)
                {
                    return -1;
                }

                number = 10 * number + (digit - '0');
            }

            return value.Length == 0 ? -1 : number;
        }

        /// <summary>gRPC's words about the status, percent-decoded; empty where there are none.</summary>
        /// <exception cref="CallException">The block is no HPACK.</exception>
        public static string GrpcMessage(ReadOnlySpan<byte> block)
        {
            if (!TryFind(block, _message, out var value))
            {
                return string.Empty;
            }

            var bytes = new byte[value.Length];
            var count = 0;
            for (var i = 0; i < value.Length; i++)
            {
                bytes[count++] = IsEscape(value, i, out var escaped) ? escaped : value[i];
                i += value[i] == '%' && IsEscape(value, i, out _) ? 2 : 0;
            }

            return Encoding.UTF8.GetString(bytes, 0, count);
        }

        private static bool IsEscape(ReadOnlySpan<byte> text, int at, out byte value)
        {
            value = 0;
            return text[at] == '%' && at + 2 < text.Length && byte.TryParse(
                Encoding.ASCII.GetString(text.Slice(at + 1, 2)),
                NumberStyles.AllowHexSpecifier,
                CultureInfo.InvariantCulture,
                out value);
        }

        private static bool TryFind(ReadOnlySpan<byte> block, byte[] name, out ReadOnlySpan<byte> value)
        {
            var at = 0;
            while (at < block.Length)
            {
                var first = block[at];
                if ((first & 0x80) != 0)
                {
                    ReadInteger(block, ref at, 7); // a field of the static table
                }
                else if ((first & 0xE0) == 0x20)
                {
                    ReadInteger(block, ref at, 5); // the dynamic table's size: none
                }
                else
                {
                    var known = ReadInteger(block, ref at, (first & 0x40) != 0 ? 6 : 4) != 0;
                    var plainName = true;
                    var found = known ? default : ReadText(block, ref at, out plainName);
                    var text = ReadText(block, ref at, out var plain);
                    if (!known && plainName && plain && found.SequenceEqual(name))
                    {
                        value = text;
                        return true;
                    }
                }
            }

            value = default;
            return false;
        }

        private static ReadOnlySpan<byte> ReadText(ReadOnlySpan<byte> block, ref int at, out bool plain)
        {
            plain = at < block.Length && (block[at] & 0x80) == 0;
            var length = ReadInteger(block, ref at, 7);
            if (length > block.Length - at)
            {
                throw Broken();
            }

            at += length;
            return block.Slice(at - length, length);
        }

        private static int ReadInteger(ReadOnlySpan<byte> block, ref int at, int bits)
        {
            if (at >= block.Length)
            {
                throw Broken();
            }

            var most = (1 << bits) - 1;
            var value = block[at++] & most;
            if (value < most)
            {
                return value;
            }

            for (var shift = 0; ; shift += 7)
            {
                if (at >= block.Length || shift > 21)
                {
                    throw Broken();
                }

                var part = block[at++];
                value += (part & 0x7F) << shift;
                if (part < 0x80)
                {
                    return value <= LongestInteger ? value : throw Broken();
                }
            }
        }

        private static CallException Broken()
        {
            return new CallException(CallFailure.Unreadable, "a header block ends inside a field");
        }
    }
}
