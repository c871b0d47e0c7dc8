using System;
using System.Collections.Generic;
using System.Globalization;
using System.IO;
using System.Linq;

namespace Tau.Trainer
{
    /// <summary>A run in the folder of runs.</summary>
    public sealed class RunEntry
    {
        /// <summary>The run in this folder.</summary>
        public RunEntry(string folder)
        {
            Folder = folder;
            Id = Path.GetFileName(folder);
            Status = RunStatus.Read(folder);
            string checkpoints = Path.Combine(folder, "checkpoints");
            CanResume = Directory.Exists(checkpoints) && Directory.EnumerateDirectories(checkpoints).Any();
        }

        /// <summary>Its folder.</summary>
        public string Folder { get; }

        /// <summary>Its name.</summary>
        public string Id { get; }

        /// <summary>Its last numbers; null: unknown.</summary>
        public RunStatus Status { get; }

        /// <summary>Whether it has a checkpoint to continue from.</summary>
        public bool CanResume { get; }
    }

    /// <summary>The runs in a folder.</summary>
    public static class RunList
    {
        private const string Mark = "configuration.yaml";

        /// <summary>All runs, newest first; none if the folder does not exist.</summary>
        public static IReadOnlyList<RunEntry> Read(string results)
        {
            try
            {
                return new DirectoryInfo(results).EnumerateDirectories()
                    .Where(folder => File.Exists(Path.Combine(folder.FullName, Mark)))
                    .OrderByDescending(folder => folder.LastWriteTimeUtc)
                    .Select(folder => new RunEntry(folder.FullName))
                    .ToArray();
            }
            catch (Exception error) when (error is IOException || error is UnauthorizedAccessException)
            {
                return Array.Empty<RunEntry>();
            }
        }

        /// <summary>A name for the next run: that of its settings file, and the first free number.</summary>
        public static string NextId(string results, string settings)
        {
            string name = string.IsNullOrEmpty(settings) ? "run" : Path.GetFileNameWithoutExtension(settings);
            for (var number = 1; ; number++)
            {
                string id = name + "-" + number.ToString("00", CultureInfo.InvariantCulture);
                if (!Directory.Exists(Path.Combine(results, id)))
                {
                    return id;
                }
            }
        }
    }
}
