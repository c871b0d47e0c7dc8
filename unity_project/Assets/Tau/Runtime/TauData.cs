using System.IO;
using Tau.Core;
using UnityEngine;

namespace Tau
{
    /// <summary>Where the data set comes from: a file that was named, or the one packed with the game.</summary>
    public static class TauData
    {
        private const string Folder = "Tau";
        private const string PackedFile = "tau.json";

        /// <summary>The data set; each file is parsed once.</summary>
        /// <param name="file">A Tau JSON file with its vectors beside it; null or empty: the packed one.</param>
        /// <exception cref="TauException">The file is missing or unusable; the sentence says where and why.</exception>
        public static TauDataset Open(string file)
        {
            return TauDataset.Load(string.IsNullOrEmpty(file) ? PackedPath() : PathOf(file));
        }

        /// <summary>
        /// A file that was named: looked for in the working directory, then beside the packed data set.
        /// </summary>
        private static string PathOf(string file)
        {
            string path = Path.GetFullPath(file);
            if (File.Exists(path) || Path.IsPathRooted(file) || !HasFiles)
            {
                return path;
            }
            string packed = Path.Combine(Application.streamingAssetsPath, Folder, file);
            return File.Exists(packed) ? packed : path;
        }

        private static string PackedPath()
        {
            if (HasFiles)
            {
                return Path.Combine(Application.streamingAssetsPath, Folder, PackedFile);
            }
            string copy = Path.Combine(Application.persistentDataPath, Folder, PackedFile);
            if (File.Exists(copy))
            {
                return copy;
            }
            throw new TauException(
                $"On {Application.platform} the packed data set is no file that can be opened; "
                + $"copy tau.json and tau.vectors.npz to {Path.GetDirectoryName(copy)}, or name a file with --tau-data "
                + "(training runs in the editor and in players for Windows, macOS and Linux).");
        }

        /// <summary>Whether packed files are files: on Android and on the web they lie inside of an archive.</summary>
        private static bool HasFiles => !Application.streamingAssetsPath.Contains("://");
    }
}
