using System;
using System.Collections.Generic;
using System.Globalization;
using System.IO;
using System.IO.Compression;
using System.Linq;
using System.Text;

namespace Tau.Core
{
    /// <summary>
    /// The archive of embeddings beside a data set: a zip file of the arrays `vectors` (floats [n, 384]), `texts` (the
    /// keys of the rows as UTF-8 JSON) and `encoder` (name of the text encoder in UTF-8).
    /// </summary>
    internal static class NpzReader
    {
        private const string Remedy = "make it anew with `tau-train data embed`.";

        /// <summary>The embeddings in <paramref name="stream"/>; none where it is null.</summary>
        /// <exception cref="TauException">
        /// The archive is damaged, or its vectors are not finite [n, 384] floats, one for each text.
        /// </exception>
        public static VectorTable Read(Stream stream, string path)
        {
            if (stream == null)
            {
                return new VectorTable(string.Empty);
            }
            try
            {
                using (var archive = new ZipArchive(stream, ZipArchiveMode.Read, true))
                {
                    var encoder = Text(archive, "encoder");
                    var texts = Texts(archive);
                    return Table(encoder, texts, Array(archive, "vectors"), path);
                }
            }
            catch (Exception error) when (Damage(error))
            {
                throw Unreadable(path, error);
            }
        }

        /// <summary>The exception for an archive that cannot be read.</summary>
        public static TauException Unreadable(string path, Exception error)
        {
            return new TauException(
                "The vector file " + path + " cannot be read (" + error.Message.TrimEnd('.') + "); " + Remedy, error);
        }

        private static bool Damage(Exception error)
        {
            return error is InvalidDataException || error is IOException || error is DecoderFallbackException
                || error is JsonFault || error is OverflowException || error is NotSupportedException
                || error is ArgumentException;
        }

        private static VectorTable Table(string encoder, List<object> texts, NpyArray vectors, string path)
        {
            var count = texts.Count;
            if (!vectors.IsFloat || !vectors.Shape.SequenceEqual(new[] { count, TauProfile.EmbeddingSize }))
            {
                var number = count.ToString(CultureInfo.InvariantCulture);
                var width = TauProfile.EmbeddingSize.ToString(CultureInfo.InvariantCulture);
                throw new TauException(
                    "The vector file " + path + " holds " + vectors.Description + " for " + number
                    + " texts but must hold [" + number + ", " + width + "] floats; " + Remedy);
            }
            var table = new VectorTable(encoder);
            for (var row = 0; row < count; row++)
            {
                var vector = vectors.Row(row);
                if (!(texts[row] is string text) || !System.Array.TrueForAll(vector, Finite))
                {
                    throw new TauException(
                        "The vector file " + path + " holds values that are not finite numbers or texts; " + Remedy);
                }
                table.Add(text, vector);
            }
            return table;
        }

        private static bool Finite(double value)
        {
            return !double.IsNaN(value) && !double.IsInfinity(value);
        }

        private static List<object> Texts(ZipArchive archive)
        {
            return new JsonReader(Text(archive, "texts"), false).ReadAll() as List<object>
                ?? throw new InvalidDataException("`texts` holds no list");
        }

        private static string Text(ZipArchive archive, string name)
        {
            return new UTF8Encoding(false, true).GetString(Array(archive, name).Bytes());
        }

        private static NpyArray Array(ZipArchive archive, string name)
        {
            var entry = archive.GetEntry(name + ".npy") ?? throw new InvalidDataException("it has no `" + name + "`");
            using (var content = new MemoryStream())
            using (var stream = entry.Open())
            {
                stream.CopyTo(content);
                if (content.Length != entry.Length)
                {
                    throw new InvalidDataException("`" + name + "` ends too early");
                }
                if (Crc32.Of(content.GetBuffer(), (int)content.Length) != entry.Crc32)
                {
                    throw new InvalidDataException("the check sum of `" + name + "` is wrong");
                }
                return NpyArray.Parse(name, content.ToArray());
            }
        }
    }
}
