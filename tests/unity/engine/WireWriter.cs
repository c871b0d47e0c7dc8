using System;
using System.Runtime.InteropServices;
using System.Text;

namespace Tau.Engine
{
    /// <summary>Writes protobuf fields into a buffer that is used again for the next message.</summary>
    internal sealed class WireWriter
    {
        /// <summary>Wire type of numbers of any length.</summary>
        public const int Varint = 0;

        /// <summary>Wire type of eight bytes.</summary>
        public const int Fixed64 = 1;

        /// <summary>Wire type of a length and as many bytes.</summary>
        public const int Bytes = 2;

        /// <summary>Wire type of four bytes.</summary>
        public const int Fixed32 = 5;

        private byte[] _buffer = new byte[1 << 16];

        /// <summary>How many bytes are written.</summary>
        public int Count { get; private set; }

        /// <summary>What is written, valid until more is.</summary>
        public ArraySegment<byte> Written => new ArraySegment<byte>(_buffer, 0, Count);

        /// <summary>Bytes that <see cref="WriteVarint"/> needs for a number.</summary>
        public static int WidthOf(uint number)
        {
            var width = 1;
            while (number > 0x7F)
            {
                number >>= 7;
                width++;
            }

            return width;
        }

        /// <summary>Bytes of a field of <paramref name="size"/> bytes with its tag and its length.</summary>
        public static int SizeOfField(int number, int size)
        {
            return WidthOf((uint)(number << 3)) + WidthOf((uint)size) + size;
        }

        /// <summary>Begin a new message.</summary>
        public void Clear()
        {
            Count = 0;
        }

        /// <summary>A number of up to 32 bits; <paramref name="width"/> bytes wide at least.</summary>
        public void WriteVarint(uint number, int width = 1)
        {
            Reserve(5);
            while (number > 0x7F || width > 1)
            {
                _buffer[Count++] = (byte)(number & 0x7F | 0x80);
                number >>= 7;
                width--;
            }

            _buffer[Count++] = (byte)number;
        }

        /// <summary>A field's number and wire type.</summary>
        public void WriteTag(int number, int wireType)
        {
            WriteVarint((uint)(number << 3 | wireType));
        }

        /// <summary>A field of type int32 that is not negative, uint32 or enum.</summary>
        public void WriteNumber(int number, int value)
        {
            WriteTag(number, Varint);
            WriteVarint((uint)value);
        }

        /// <summary>A field of type bool.</summary>
        public void WriteFlag(int number, bool value)
        {
            WriteNumber(number, value ? 1 : 0);
        }

        /// <summary>A field of type float.</summary>
        public void WriteFloat(int number, float value)
        {
            WriteTag(number, Fixed32);
            WriteInt32(BitConverter.SingleToInt32Bits(value));
        }

        /// <summary>Four bytes, the lowest first.</summary>
        public void WriteInt32(int value)
        {
            Reserve(4);
            _buffer[Count++] = (byte)value;
            _buffer[Count++] = (byte)(value >> 8);
            _buffer[Count++] = (byte)(value >> 16);
            _buffer[Count++] = (byte)(value >> 24);
        }

        /// <summary>
        /// The beginning of a field that holds <paramref name="size"/> bytes, which are written next.
        /// </summary>
        public void WriteHead(int number, int size)
        {
            WriteTag(number, Bytes);
            WriteVarint((uint)size);
        }

        /// <summary>A field of type string.</summary>
        public void WriteText(int number, string text)
        {
            WriteField(number, Encoding.UTF8.GetBytes(text));
        }

        /// <summary>A field of bytes, or of a message that is written already.</summary>
        public void WriteField(int number, ReadOnlySpan<byte> bytes)
        {
            WriteHead(number, bytes.Length);
            WriteRaw(bytes);
        }

        /// <summary>Bytes as they are.</summary>
        public void WriteRaw(ReadOnlySpan<byte> bytes)
        {
            Reserve(bytes.Length);
            bytes.CopyTo(_buffer.AsSpan(Count));
            Count += bytes.Length;
        }

        /// <summary>Floats as they lie in memory, four bytes each, the lowest first.</summary>
        public void WriteFloats(ReadOnlySpan<float> values)
        {
            if (BitConverter.IsLittleEndian)
            {
                WriteRaw(MemoryMarshal.AsBytes(values));
                return;
            }

            foreach (var value in values)
            {
                WriteInt32(BitConverter.SingleToInt32Bits(value));
            }
        }

        private void Reserve(int more)
        {
            if (Count + more > _buffer.Length)
            {
                Array.Resize(ref _buffer, 2 * (Count + more));
            }
        }
    }
}
