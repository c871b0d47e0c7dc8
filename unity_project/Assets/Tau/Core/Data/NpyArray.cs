using System;
using System.Globalization;
using System.IO;
using System.Linq;
using System.Text;
using System.Text.RegularExpressions;

namespace Tau.Core
{
    /// <summary>
    /// One array in numpy's .npy format, versions 1 to 3: half, single and double precision floats and unsigned bytes,
    /// little-endian, rows one after the other. Faults are <see cref="InvalidDataException"/>s.
    /// </summary>
    internal sealed class NpyArray
    {
        private static readonly byte[] Magic = { 0x93, (byte)'N', (byte)'U', (byte)'M', (byte)'P', (byte)'Y' };

        private readonly byte[] _content;
        private readonly int _start;
        private readonly string _type;

        private NpyArray(byte[] content, int start, string type, int[] shape)
        {
            _content = content;
            _start = start;
            _type = type;
            Shape = shape;
        }

        /// <summary>Length of each axis.</summary>
        public int[] Shape { get; }

        /// <summary>Whether the numbers are floats.</summary>
        public bool IsFloat => _type == "<f2" || _type == "<f4" || _type == "<f8";

        /// <summary>Type and shape as numpy names them: `float16 [5, 384]`.</summary>
        public string Description
        {
            get
            {
                var kinds = "<f2 float16 <f4 float32 <f8 float64 |u1 uint8".Split(' ');
                var axes = Shape.Select(length => length.ToString(CultureInfo.InvariantCulture));
                return kinds[Array.IndexOf(kinds, _type) + 1] + " [" + string.Join(", ", axes) + "]";
            }
        }

        /// <summary>Understands the content of one .npy file.</summary>
        public static NpyArray Parse(string name, byte[] content)
        {
            if (content.Length < 10 || !content.Take(Magic.Length).SequenceEqual(Magic))
            {
                throw new InvalidDataException("`" + name + "` is no .npy array");
            }
            var wide = content[6] >= 2;
            var start = wide ? 12 : 10;
            var size = wide && content.Length >= 12 ? Unsigned(content, 8, 4) : Unsigned(content, 8, 2);
            if (content[6] < 1 || content[6] > 3 || start + size > content.Length)
            {
                throw new InvalidDataException("the header of `" + name + "` is damaged");
            }
            var header = Encoding.UTF8.GetString(content, start, (int)size);
            return Checked(name, content, start + (int)size, header);
        }

        /// <summary>All bytes of an array of bytes.</summary>
        public byte[] Bytes()
        {
            var result = new byte[_type == "|u1" ? Shape.Aggregate(1, (product, length) => product * length) : 0];
            Array.Copy(_content, _start, result, 0, result.Length);
            return result;
        }

        /// <summary>One row of a two-dimensional array of floats.</summary>
        public double[] Row(int index)
        {
            var size = _type[2] - '0';
            var row = new double[Shape[1]];
            var position = _start + (index * row.Length * size);
            for (var column = 0; column < row.Length; column++, position += size)
            {
                row[column] = Number(position, size);
            }
            return row;
        }

        /// <summary>The number in IEEE 754 half precision whose bits these are.</summary>
        internal static double Half(int bits)
        {
            var sign = (bits & 0x8000) == 0 ? 1.0 : -1.0;
            var exponent = (bits >> 10) & 0x1F;
            var fraction = bits & 0x3FF;
            switch (exponent)
            {
                case 0:
                    return sign * fraction * (1.0 / 16777216.0); // subnormal: 2^-24 each
                case 31:
                    return fraction == 0 ? sign * double.PositiveInfinity : double.NaN;
                default:
                    return sign * (1024 + fraction) * Math.Pow(2.0, exponent - 25);
            }
        }

        private static NpyArray Checked(string name, byte[] content, int start, string header)
        {
            var type = Regex.Match(header, "'descr'\\s*:\\s*'([^']*)'").Groups[1].Value;
            var shape = Regex.Match(header, "'shape'\\s*:\\s*\\(([0-9,\\s]*)\\)");
            var order = Regex.Match(header, "'fortran_order'\\s*:\\s*(True|False)").Groups[1].Value;
            if (type.Length == 0 || order.Length == 0 || !shape.Success)
            {
                throw new InvalidDataException("the header of `" + name + "` is damaged");
            }
            var axes = shape.Groups[1].Value.Split(new[] { ',', ' ' }, StringSplitOptions.RemoveEmptyEntries)
                .Select(length => int.TryParse(length, NumberStyles.None, CultureInfo.InvariantCulture, out var number)
                    ? number : throw new InvalidDataException("the shape of `" + name + "` is damaged"))
                .ToArray();
            if (Array.IndexOf(new[] { "<f2", "<f4", "<f8", "|u1" }, type) < 0 || (order == "True" && axes.Length > 1))
            {
                throw new InvalidDataException(
                    "`" + name + "` is no little-endian array of floats or bytes in row order but `" + type + "`");
            }
            var needed = axes.Aggregate((long)(type[2] - '0'), (product, length) => checked(product * length));
            if (content.Length - start < needed)
            {
                throw new InvalidDataException("`" + name + "` ends too early");
            }
            return new NpyArray(content, start, type, axes);
        }

        private static long Unsigned(byte[] content, int start, int size)
        {
            long value = 0;
            for (var position = size - 1; position >= 0; position--)
            {
                value = (value << 8) | content[start + position];
            }
            return value;
        }

        private double Number(int position, int size)
        {
            var bits = 0L;
            for (var index = size - 1; index >= 0; index--)
            {
                bits = (bits << 8) | _content[position + index];
            }
            switch (size)
            {
                case 2:
                    return Half((int)bits);
                case 4:
                    return BitConverter.Int32BitsToSingle((int)bits);
                default:
                    return BitConverter.Int64BitsToDouble(bits);
            }
        }
    }
}
