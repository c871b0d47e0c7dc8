using System;
using System.Collections.Generic;
using System.IO;
using System.Linq;

namespace Tau.Trainer
{
    /// <summary>Where programs are on a computer.</summary>
    public sealed class Machine
    {
        /// <summary>A computer with these folders of programs.</summary>
        /// <param name="windows">Whether it runs Windows.</param>
        /// <param name="folders">Folders in which to look for programs, in this order.</param>
        public Machine(bool windows, IEnumerable<string> folders)
        {
            IsWindows = windows;
            Folders = folders.ToArray();
        }

        /// <summary>Whether it runs Windows.</summary>
        public bool IsWindows { get; }

        /// <summary>Folders in which to look for programs, in this order.</summary>
        public IReadOnlyList<string> Folders { get; }

        /// <summary>
        /// This computer: PATH, then the usual folders, because programs that macOS starts from the Dock get a short
        /// PATH.
        /// </summary>
        public static Machine Here()
        {
            bool windows = Path.DirectorySeparatorChar == '\\';
            string path = Environment.GetEnvironmentVariable("PATH") ?? string.Empty;
            string home = Environment.GetFolderPath(Environment.SpecialFolder.UserProfile);
            string[] usual = windows
                ? new string[0]
                : new[] { Path.Combine(home, ".local", "bin"), "/opt/homebrew/bin", "/usr/local/bin", "/usr/bin" };
            IEnumerable<string> listed = path.Split(Path.PathSeparator).Where(folder => folder.Trim().Length > 0);
            return new Machine(windows, listed.Concat(usual).Distinct());
        }

        /// <summary>The file of a program in a virtual environment.</summary>
        public string InEnvironment(string folder, string program)
        {
            return Path.Combine(folder, IsWindows ? "Scripts" : "bin", FileName(program));
        }

        /// <summary>The file name of a program.</summary>
        public string FileName(string program)
        {
            return IsWindows ? program + ".exe" : program;
        }

        /// <summary>All files with the name of a program in <see cref="Folders"/>, in their order.</summary>
        public IEnumerable<string> Find(string program)
        {
            return Folders.Select(folder => Join(folder, FileName(program))).Where(File.Exists);
        }

        private static string Join(string folder, string name)
        {
            try
            {
                return Path.Combine(folder, name);
            }
            catch (ArgumentException)
            {
                return string.Empty; // PATH may hold anything
            }
        }
    }
}
