using System;
using System.Collections.Generic;
using System.IO;
using System.IO.Compression;
using System.Linq;
using System.Text;

namespace Tau.Core.Tests
{
    /// <summary>The made-up data set of the shared vectors, as streams and on disk.</summary>
    internal static class MadeUpData
    {
        /// <summary>The section `dataset` of the shared vectors.</summary>
        public static Dictionary<string, object> Case => (Dictionary<string, object>)TestData.Vectors["dataset"];

        /// <summary>The data set read from streams, with vectors of this type of number.</summary>
        public static TauDataset Read(string type = "<f2", string source = "made-up.json")
        {
            return ReadFrom((string)Case["json"], Archive(type), source);
        }

        /// <summary>A data set from a JSON text and an archive.</summary>
        public static TauDataset ReadFrom(string json, byte[] archive, string source = "made-up.json")
        {
            using (var text = new MemoryStream(Encoding.UTF8.GetBytes(json)))
            using (var vectors = archive == null ? null : new MemoryStream(archive))
            {
                return TauDataset.Read(text, vectors, source);
            }
        }

        /// <summary>The archive of embeddings that the made-up data set needs.</summary>
        public static byte[] Archive(string type = "<f2")
        {
            var vectors = (Dictionary<string, object>)Case["vectors"];
            var texts = "[" + string.Join(",", vectors.Keys.Select(Quote)) + "]";
            var numbers = vectors.Values.SelectMany(row => ((List<object>)row).Cast<double>());
            var bytes = numbers.SelectMany(number => Bytes(type, number)).ToArray();
            return Zip(
                ("vectors", Npy(type, vectors.Count + ", 384", bytes)),
                ("texts", Npy("|u1", Encoding.UTF8.GetByteCount(texts) + ",", Encoding.UTF8.GetBytes(texts))),
                ("encoder", Npy("|u1", "7,", Encoding.UTF8.GetBytes((string)Case["encoder"]))));
        }

        /// <summary>A zip archive of .npy files, not compressed: nothing but the check sum finds a wrong bit.</summary>
        public static byte[] Zip(params (string Name, byte[] Content)[] arrays)
        {
            var bytes = new MemoryStream();
            using (var archive = new ZipArchive(bytes, ZipArchiveMode.Create, true))
            {
                foreach (var (name, content) in arrays)
                {
                    using (var stream = archive.CreateEntry(name + ".npy", CompressionLevel.NoCompression).Open())
                    {
                        stream.Write(content, 0, content.Length);
                    }
                }
            }
            return bytes.ToArray();
        }

        /// <summary>One .npy file; the shape is what stands between the brackets of its header.</summary>
        public static byte[] Npy(string type, string shape, byte[] content, int version = 1)
        {
            var header = "{'descr': '" + type + "', 'fortran_order': False, 'shape': (" + shape + "), }\n";
            var size = version == 1
                ? BitConverter.GetBytes((ushort)header.Length)
                : BitConverter.GetBytes((uint)header.Length);
            return new byte[] { 0x93, 78, 85, 77, 80, 89, (byte)version, 0 }
                .Concat(size).Concat(Encoding.ASCII.GetBytes(header)).Concat(content).ToArray();
        }

        /// <summary>A folder of its own, removed with what is in it.</summary>
        public static void InFolder(Action<string> use)
        {
            var folder = Path.Combine(Path.GetTempPath(), "tau-core-" + Guid.NewGuid().ToString("N"));
            Directory.CreateDirectory(folder);
            try
            {
                use(folder);
            }
            finally
            {
                Directory.Delete(folder, true);
            }
        }

        /// <summary>The made-up data set on disk; its JSON file.</summary>
        public static string Write(string folder, string name = "made-up")
        {
            var path = Path.Combine(folder, name + ".json");
            File.WriteAllText(path, (string)Case["json"]);
            File.WriteAllBytes(Path.Combine(folder, name + ".vectors.npz"), Archive());
            return path;
        }

        private static string Quote(string text)
        {
            return "\"" + text.Replace("\\", "\\\\").Replace("\"", "\\\"") + "\"";
        }

        private static byte[] Bytes(string type, double number)
        {
            switch (type)
            {
                case "<f2":
                    return BitConverter.GetBytes(SmallInteger((int)number));
                case "<f4":
                    return BitConverter.GetBytes((float)number);
                default:
                    return BitConverter.GetBytes(number);
            }
        }

        /// <summary>A whole number below 1024 in half precision.</summary>
        private static ushort SmallInteger(int number)
        {
            var size = Math.Abs(number);
            if (size == 0)
            {
                return 0;
            }
            var exponent = (int)Math.Log(size, 2);
            var fraction = (size - (1 << exponent)) << (10 - exponent);
            return (ushort)((number < 0 ? 0x8000 : 0) | ((exponent + 15) << 10) | fraction);
        }
    }
}
