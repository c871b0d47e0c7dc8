using System;
using System.Collections.Generic;
using System.IO;
using System.Linq;

namespace Tau.Core
{
    /// <summary>Data sets on disk, each parsed once while its two files stay as they are.</summary>
    internal static class TauDatasetFiles
    {
        private const int MostEntries = 8;

        private static readonly LinkedList<Entry> Recent = new LinkedList<Entry>();

        /// <summary>See <see cref="TauDataset.Load"/>.</summary>
        public static TauDataset Load(string jsonPath)
        {
            var path = ExpandHome(jsonPath);
            var stamp = Stamp(path) + "|" + Stamp(VectorsPath(path));
            lock (Recent)
            {
                var full = Path.GetFullPath(path);
                var known = Recent.FirstOrDefault(entry => entry.Path == full);
                if (known != null)
                {
                    Recent.Remove(known);
                }
                if (known == null || known.Stamp != stamp)
                {
                    known = new Entry(full, stamp, Parse(path));
                }
                Recent.AddFirst(known);
                if (Recent.Count > MostEntries)
                {
                    Recent.RemoveLast();
                }
                return known.Dataset;
            }
        }

        /// <summary>Where the embeddings of a data file lie: `set.json`: `set.vectors.npz`.</summary>
        public static string VectorsPath(string path)
        {
            var name = path.Substring(path.LastIndexOfAny(new[] { '/', '\\' }) + 1);
            var dot = name.LastIndexOf('.');
            var stem = dot > 0 && dot < name.Length - 1 ? name.Substring(0, dot) : name;
            return path.Substring(0, path.Length - name.Length) + stem + ".vectors.npz";
        }

        private static TauDataset Parse(string path)
        {
            using (var json = Open(path))
            {
                return TauDataset.Parse(json, path, () => ReadVectors(VectorsPath(path)));
            }
        }

        private static Stream Open(string path)
        {
            try
            {
                return File.OpenRead(path);
            }
            catch (Exception error) when (error is FileNotFoundException || error is DirectoryNotFoundException)
            {
                throw new TauException(
                    "There is no data file " + path + SimilarName(path) + "; check the path.", error);
            }
            catch (Exception error) when (error is IOException || error is UnauthorizedAccessException)
            {
                throw new TauException(
                    "The data file " + path + " cannot be read (" + error.Message.TrimEnd('.')
                    + "); give a UTF-8 file in Tau's JSON form.", error);
            }
        }

        private static VectorTable ReadVectors(string path)
        {
            if (!File.Exists(path) && !Directory.Exists(path))
            {
                return NpzReader.Read(null, path);
            }
            try
            {
                using (var stream = File.OpenRead(path))
                {
                    return NpzReader.Read(stream, path);
                }
            }
            catch (Exception error) when (error is IOException || error is UnauthorizedAccessException)
            {
                throw NpzReader.Unreadable(path, error);
            }
        }

        /// <summary>A hint where the folder holds the same name in another case.</summary>
        private static string SimilarName(string path)
        {
            var full = Path.GetFullPath(path);
            var folder = Path.GetDirectoryName(full);
            if (folder == null || !Directory.Exists(folder))
            {
                return string.Empty;
            }
            var wanted = LowerCase.Of(Path.GetFileName(full));
            var other = Directory.EnumerateFileSystemEntries(folder)
                .Select(Path.GetFileName)
                .OrderBy(name => name, TextKey.Order)
                .FirstOrDefault(name => LowerCase.Of(name) == wanted);
            return other == null ? string.Empty : " (there is " + other + "; upper and lower case matter)";
        }

        /// <summary>What changes when a file is written: an edited one is not served from memory.</summary>
        private static string Stamp(string path)
        {
            var file = new FileInfo(path);
            return file.Exists ? FormattableString.Invariant($"{file.LastWriteTimeUtc.Ticks}/{file.Length}") : "none";
        }

        private static string ExpandHome(string path)
        {
            return path == "~" || path.StartsWith("~/", StringComparison.Ordinal)
                ? Environment.GetFolderPath(Environment.SpecialFolder.UserProfile) + path.Substring(1)
                : path;
        }

        private sealed class Entry
        {
            public Entry(string path, string stamp, TauDataset dataset)
            {
                Path = path;
                Stamp = stamp;
                Dataset = dataset;
            }

            public string Path { get; }

            public string Stamp { get; }

            public TauDataset Dataset { get; }
        }
    }
}
