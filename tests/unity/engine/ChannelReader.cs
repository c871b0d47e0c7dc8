using System;
using System.Text;

namespace Tau.Engine
{
    /// <summary>
    /// Reads a side channel's payload; past the end every call returns a default, as ML-Agents' readers do.
    /// </summary>
    internal ref struct ChannelReader
    {
        private readonly ReadOnlySpan<byte> _data;
        private int _at;

        /// <summary>Begin at the start of a payload.</summary>
        public ChannelReader(ReadOnlySpan<byte> data)
        {
            _data = data;
            _at = 0;
        }

        /// <summary>Four bytes, signed, the lowest first.</summary>
        public int ReadInt32(int otherwise)
        {
            if (_data.Length - _at < 4)
            {
                return otherwise;
            }

            _at += 4;
            return _data[_at - 4] | _data[_at - 3] << 8 | _data[_at - 2] << 16 | _data[_at - 1] << 24;
        }

        /// <summary>Four bytes; 0 past the end.</summary>
        public float ReadFloat()
        {
            return BitConverter.Int32BitsToSingle(ReadInt32(0));
        }

        /// <summary>A count of bytes and as many ASCII characters; empty past the end.</summary>
        public string ReadText()
        {
            var length = ReadInt32(-1);
            if (length < 0 || length > _data.Length - _at)
            {
                return string.Empty;
            }

            _at += length;
            return Encoding.ASCII.GetString(_data.Slice(_at - length, length));
        }

        /// <summary>A count and as many floats; none past the end.</summary>
        public float[] ReadFloats()
        {
            var count = ReadInt32(0);
            if (count < 0 || count > (_data.Length - _at) / 4)
            {
                return Array.Empty<float>();
            }

            var values = new float[count];
            for (var i = 0; i < count; i++)
            {
                values[i] = ReadFloat();
            }

            return values;
        }
    }
}
