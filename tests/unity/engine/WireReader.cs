using System;
using System.Runtime.InteropServices;
using System.Text;
using Tau.Core;

namespace Tau.Engine
{
    /// <summary>Walks the fields of one protobuf message; fields that nobody asks for are skipped.</summary>
    internal ref struct WireReader
    {
        private readonly ReadOnlySpan<byte> _data;
        private int _at;

        /// <summary>Begin before the first field of <paramref name="data"/>.</summary>
        public WireReader(ReadOnlySpan<byte> data)
        {
            _data = data;
            _at = 0;
            Number = 0;
            WireType = 0;
            Value = 0;
            Content = default;
        }

        /// <summary>Number of the field that was read last.</summary>
        public int Number { get; private set; }

        /// <summary>Its wire type, as in <see cref="WireWriter"/>.</summary>
        public int WireType { get; private set; }

        /// <summary>Its value, where it is a number.</summary>
        public ulong Value { get; private set; }

        /// <summary>Its bytes, where it has a length or a fixed size.</summary>
        public ReadOnlySpan<byte> Content { get; private set; }

        /// <summary>Its text.</summary>
        public string Text => Encoding.UTF8.GetString(Content);

        /// <summary>Read the next field; false at the end.</summary>
        /// <exception cref="TauException">
        /// The message ends inside a field, or has a field that cannot exist.
        /// </exception>
        public bool Next()
        {
            if (_at >= _data.Length)
            {
                return false;
            }

            var tag = ReadVarint();
            Number = (int)(tag >> 3);
            WireType = (int)(tag & 7);
            if (Number == 0 || tag > uint.MaxValue)
            {
                throw Broken();
            }

            ReadValue();
            return true;
        }

        /// <summary>Whether the field is this one, and of this type.</summary>
        public readonly bool Is(int number, int wireType)
        {
            return Number == number && WireType == wireType;
        }

        /// <summary>Append the field's floats, packed or a single one, to <paramref name="target"/>.</summary>
        /// <param name="target">Grows where it is too small.</param>
        /// <param name="count">How many floats it holds; moves on.</param>
        /// <exception cref="TauException">The bytes are no whole number of floats.</exception>
        public readonly void AppendFloats(ref float[] target, ref int count)
        {
            if (Content.Length % 4 != 0)
            {
                throw Broken();
            }

            var more = Content.Length / 4;
            if (count + more > target.Length)
            {
                Array.Resize(ref target, 2 * (count + more));
            }

            if (BitConverter.IsLittleEndian)
            {
                Content.CopyTo(MemoryMarshal.AsBytes(target.AsSpan(count)));
            }
            else
            {
                for (var i = 0; i < more; i++)
                {
                    var bytes = Content.Slice(4 * i, 4);
                    var bits = bytes[0] | bytes[1] << 8 | bytes[2] << 16 | bytes[3] << 24;
                    target[count + i] = BitConverter.Int32BitsToSingle(bits);
                }
            }

            count += more;
        }

        private static TauException Broken()
        {
            return new TauException(
                "The trainer sent bytes that are not a message of ML-Agents' protocol; " +
                "check that the port given by --mlagents-port is a trainer's.");
        }

        private void ReadValue()
        {
            switch (WireType)
            {
                case WireWriter.Varint:
                    Value = ReadVarint();
                    Content = default;
                    break;
                case WireWriter.Bytes:
                    var length = ReadVarint();
                    Take(length > int.MaxValue ? throw Broken() : (int)length);
                    break;
                case WireWriter.Fixed32:
                    Take(4);
                    break;
                case WireWriter.Fixed64:
                    Take(8);
                    break;
                default:
                    throw Broken();
            }
        }

        private void Take(int size)
        {
            if (size > _data.Length - _at)
            {
                throw Broken();
            }

            Content = _data.Slice(_at, size);
            _at += size;
        }

        private ulong ReadVarint()
        {
            ulong value = 0;
            for (var shift = 0; shift < 64 && _at < _data.Length; shift += 7)
            {
                var part = _data[_at++];
                value |= (ulong)(part & 0x7F) << shift;
                if (part < 0x80)
                {
                    return value;
                }
            }

            throw Broken();
        }
    }
}
