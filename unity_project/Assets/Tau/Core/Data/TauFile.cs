using System;
using System.IO;
using System.Linq;
using System.Text;

namespace Tau.Core
{
    /// <summary>
    /// Reads files of `tau-train data export-unity`; `tau_trainer/tau/unity_file.py` defines the format.
    /// </summary>
    internal static class TauFile
    {
        private const string Magic = "TAU-DATA";
        private const int Version = 1;
        private const int Tokens = 3;
        private const string Remedy = "make it again with `tau-train data export-unity`.";

        /// <summary>See <see cref="TauDataset.Read"/>.</summary>
        public static TauDataset Read(byte[] content, string source)
        {
            if (content.Length < Magic.Length || Encoding.ASCII.GetString(content, 0, Magic.Length) != Magic)
            {
                throw new TauException($"{source} is not a Tau data file for Unity; {Remedy}");
            }
            var stream = new MemoryStream(content) { Position = Magic.Length };
            try
            {
                using (var reader = new BinaryReader(stream, new UTF8Encoding(false, true)))
                {
                    return Read(reader, source);
                }
            }
            catch (Exception error) when (
                error is IOException || error is FormatException || error is ArgumentException)
            {
                throw new TauException($"{source} is damaged or cut short ({error.Message.TrimEnd('.')}); {Remedy}");
            }
        }

        private static TauDataset Read(BinaryReader reader, string source)
        {
            var version = reader.ReadInt32();
            if (version != Version)
            {
                throw new TauException(FormattableString.Invariant(
                    $"{source} has version {version}, but this game reads only version {Version}; {Remedy}"));
            }
            reader.ReadString(); // the encoder's name
            var skipped = Many(Count(reader), reader.ReadString);
            var size = Count(reader);
            var known = Count(reader);
            Check(known > 0 && known <= size);
            var answers = Many(size, reader.ReadString);
            var vectors = Many(size, () => Vector(reader));
            var tokens = Many(size, () => Many(Tokens, () => Finite(reader.ReadSingle())));
            var train = Split(reader, size);
            var evaluation = Split(reader, size);
            Check(train.Count > 0 && reader.BaseStream.Position == reader.BaseStream.Length);
            return new TauDataset(source, skipped, answers, known, vectors, tokens, train, evaluation);
        }

        private static TauSplit Split(BinaryReader reader, int answers)
        {
            var count = Count(reader);
            var questions = Many(count, reader.ReadString);
            var index = Many(count, reader.ReadInt32);
            Check(index.All(answer => answer >= 0 && answer < answers));
            return new TauSplit(questions, index, Many(count, () => Vector(reader)));
        }

        /// <summary>A count of items that follow: at most the number of remaining bytes.</summary>
        private static int Count(BinaryReader reader)
        {
            var count = reader.ReadInt32();
            Check(count >= 0 && count <= reader.BaseStream.Length);
            return count;
        }

        private static T[] Many<T>(int count, Func<T> read)
        {
            var values = new T[count];
            for (var position = 0; position < count; position++)
            {
                values[position] = read();
            }
            return values;
        }

        /// <summary>An embedding, scaled to unit length.</summary>
        private static float[] Vector(BinaryReader reader)
        {
            var values = Many(TauProfile.EmbeddingSize, () => Half(reader.ReadUInt16()));
            var length = Math.Sqrt(values.Sum(value => value * value));
            return Array.ConvertAll(values, value => Finite((float)(value / length)));
        }

        /// <summary>A number in half precision (IEEE 754 binary16).</summary>
        private static double Half(int bits)
        {
            var exponent = (bits >> 10) & 0x1F;
            var fraction = bits & 0x3FF;
            Check(exponent < 0x1F);
            var size = exponent == 0 ? fraction * Power(-24) : (fraction + 1024) * Power(exponent - 25);
            return (bits & 0x8000) == 0 ? size : -size;
        }

        private static double Power(int exponent)
        {
            return BitConverter.Int64BitsToDouble((exponent + 1023L) << 52);
        }

        private static float Finite(float value)
        {
            Check(!float.IsNaN(value) && !float.IsInfinity(value));
            return value;
        }

        private static void Check(bool sound)
        {
            if (!sound)
            {
                throw new FormatException("a value is out of its range");
            }
        }
    }
}
