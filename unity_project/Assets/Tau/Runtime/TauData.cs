using System.IO;
using Tau.Core;
using UnityEngine;

namespace Tau
{
    /// <summary>Opens the data set: a named file, or the one packed with the game.</summary>
    public static class TauData
    {
        private const string Folder = "Tau";
        private const string PackedFile = "tau.tau";

        /// <summary>The data set.</summary>
        /// <param name="file">
        /// A file of `tau-train data export-unity`, searched in the working directory, then next to the packed one;
        /// null or empty: the packed one.
        /// </param>
        /// <exception cref="TauException">The file is missing or unusable; the sentence says where and why.</exception>
        public static TauDataset Open(string file)
        {
            string packed = Path.Combine(
                IsArchive ? Application.persistentDataPath : Application.streamingAssetsPath,
                Folder,
                string.IsNullOrEmpty(file) ? PackedFile : file); // the named file if its path is absolute
            if (!string.IsNullOrEmpty(file) && (File.Exists(file) || !File.Exists(packed)))
            {
                return TauDataset.Load(Path.GetFullPath(file));
            }
            if (IsArchive && !File.Exists(packed))
            {
                throw new TauException(
                    $"On {Application.platform} the packed data set is not a file that can be opened; "
                    + $"copy tau.tau to {Path.GetDirectoryName(packed)}, or name a file with --tau-data "
                    + "(training runs in the editor and in players for Windows, macOS and Linux).");
            }
            return TauDataset.Load(packed);
        }

        /// <summary>Whether packed files are inside an archive, as on Android and on the web.</summary>
        private static bool IsArchive => Application.streamingAssetsPath.Contains("://");
    }
}
