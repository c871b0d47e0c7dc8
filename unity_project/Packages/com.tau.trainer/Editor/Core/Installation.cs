using System;
using System.Collections.Generic;
using System.IO;
using System.Linq;
using System.Threading;
using System.Threading.Tasks;

namespace Tau.Trainer
{
    /// <summary>Finds `tau-train`, or installs it.</summary>
    public static class Installation
    {
        /// <summary>Oldest version of Python 3 that `tau-train` runs on.</summary>
        public const int OldestPython = 11;

        private const string Program = "tau-train";

        private const string VersionCode = "import sys; print(sys.version_info[0], sys.version_info[1])";

        private static readonly string[] Pythons =
        {
            "python3.13", "python3.12", "python3.11", "python3", "python", "py",
        };

        /// <summary>The file of `tau-train`.</summary>
        /// <param name="chosen">What the user chose: the file, or the folder of a virtual environment; or
        /// empty.</param>
        /// <param name="environments">Folders of virtual environments in which to look before PATH.</param>
        /// <exception cref="TrainerException">There is none.</exception>
        public static string Find(string chosen, IEnumerable<string> environments, Machine machine)
        {
            if (!string.IsNullOrEmpty(chosen))
            {
                return Chosen(chosen, machine);
            }
            IEnumerable<string> places = environments.Select(folder => machine.InEnvironment(folder, Program));
            return places.Where(File.Exists).Concat(machine.Find(Program)).FirstOrDefault()
                ?? throw new TrainerException("tau-train was not found: click Install, or choose its path.");
        }

        /// <summary>
        /// Makes a virtual environment and installs a package in it; returns the file of `tau-train`.
        /// </summary>
        /// <param name="folder">The environment; if it exists, it is used.</param>
        /// <param name="package">What pip installs: a name, a path, or an address of a repository.</param>
        /// <param name="say">Gets the lines of the log, on another thread.</param>
        /// <exception cref="TrainerException">There is no Python, or it could not be installed.</exception>
        /// <exception cref="OperationCanceledException">It was cancelled; a new folder is removed.</exception>
        public static async Task<string> InstallAsync(
            string folder, string package, Machine machine, Action<string> say, CancellationToken token)
        {
            string python = await PythonAsync(machine, token).ConfigureAwait(false);
            bool made = !Directory.Exists(folder);
            string parent = Path.GetDirectoryName(Path.GetFullPath(folder));
            try
            {
                Directory.CreateDirectory(parent);
                await StepAsync("A virtual environment", python, new[] { "-m", "venv", folder }).ConfigureAwait(false);
                string[] install = { "-m", "pip", "install", "--disable-pip-version-check", "--", package };
                string own = machine.InEnvironment(folder, "python");
                await StepAsync(package, own, install).ConfigureAwait(false);
            }
            catch (Exception) when (made)
            {
                Remove(folder);
                throw;
            }
            return Chosen(folder, machine);

            async Task StepAsync(string what, string file, string[] arguments)
            {
                say(Path.GetFileName(file) + " " + string.Join(" ", arguments));
                ToolResult done = await Tool.RunAsync(file, arguments, parent, say, token).ConfigureAwait(false);
                if (done.Code != 0)
                {
                    throw new TrainerException(
                        what + " could not be installed in " + folder + " (" + done.LastLine.TrimEnd('.')
                        + "): solve this, and click Install again.");
                }
            }
        }

        private static string Chosen(string chosen, Machine machine)
        {
            if (File.Exists(chosen))
            {
                return chosen;
            }
            if (!Directory.Exists(chosen))
            {
                throw new TrainerException(
                    chosen + " does not exist: choose the file tau-train, or the folder of a virtual environment.");
            }
            string file = machine.InEnvironment(chosen, Program);
            return File.Exists(file)
                ? file
                : throw new TrainerException(
                    chosen + " is no virtual environment with Tau Trainer (it has no " + file
                    + "): choose another one, or click Install.");
        }

        /// <summary>The first Python that is new enough. Windows has a `python` that only opens its store.</summary>
        private static async Task<string> PythonAsync(Machine machine, CancellationToken token)
        {
            foreach (string file in Pythons.SelectMany(machine.Find))
            {
                try
                {
                    string[] ask = { "-c", VersionCode };
                    string here = Path.GetDirectoryName(file);
                    ToolResult done = await Tool.RunAsync(file, ask, here, _ => { }, token).ConfigureAwait(false);
                    string[] version = done.Output.Trim().Split(' ');
                    if (version.Length == 2 && version[0] == "3" && int.Parse(version[1]) >= OldestPython)
                    {
                        return file;
                    }
                }
                catch (Exception error) when (error is TrainerException || error is FormatException)
                {
                    continue; // the next one may work
                }
            }
            throw new TrainerException(
                "No Python 3." + OldestPython + " or newer was found: install it from python.org, and try again.");
        }

        private static void Remove(string folder)
        {
            try
            {
                if (Directory.Exists(folder))
                {
                    Directory.Delete(folder, true);
                }
            }
            catch (Exception error) when (error is IOException || error is UnauthorizedAccessException)
            {
                return; // a file is still open; the next installation uses the folder
            }
        }
    }
}
