using System;
using System.Collections.Generic;
using System.ComponentModel;
using System.Diagnostics;
using System.IO;
using System.Linq;
using System.Text;
using System.Threading;
using System.Threading.Tasks;

namespace Tau.Trainer
{
    /// <summary>The end of a short command.</summary>
    public sealed class ToolResult
    {
        /// <summary>A command that ended with this code and wrote this.</summary>
        public ToolResult(int code, string output, string error)
        {
            Code = code;
            Output = output;
            Error = error;
        }

        /// <summary>The exit code.</summary>
        public int Code { get; }

        /// <summary>Standard output.</summary>
        public string Output { get; }

        /// <summary>Standard error.</summary>
        public string Error { get; }

        /// <summary>The last line that says something, of the errors or else of the output; for a message.</summary>
        public string LastLine
        {
            get
            {
                IEnumerable<string> lines = (Output + "\n" + Error).Split('\n').Select(line => line.Trim());
                return lines.LastOrDefault(line => line.Length > 0) ?? "it said nothing";
            }
        }
    }

    /// <summary>Starts programs without a shell, so that names and paths are never read as commands.</summary>
    public static class Tool
    {
        /// <summary>What to start; the environment makes Python write UTF-8 at once.</summary>
        public static ProcessStartInfo Info(string file, IEnumerable<string> arguments, string folder)
        {
            var info = new ProcessStartInfo(file, CommandLine.Join(arguments, CommandLine.Here))
            {
                WorkingDirectory = folder,
                UseShellExecute = false,
                CreateNoWindow = true,
            };
            info.EnvironmentVariables["PYTHONUTF8"] = "1";
            info.EnvironmentVariables["PYTHONUNBUFFERED"] = "1";
            info.EnvironmentVariables["COLUMNS"] = "4000"; // no message is broken into lines
            return info;
        }

        /// <summary>Starts a process.</summary>
        /// <exception cref="TrainerException">It does not start.</exception>
        public static Process Start(ProcessStartInfo info)
        {
            try
            {
                return Process.Start(info) ?? throw new Win32Exception();
            }
            catch (Exception error) when (error is Win32Exception || error is IOException
                || error is UnauthorizedAccessException || error is InvalidOperationException)
            {
                string reason = error.Message.Replace("\r", string.Empty).Replace("\n", " ").Trim().TrimEnd('.');
                throw new TrainerException(
                    info.FileName + " does not start (" + reason + "): install it again, or choose another one.");
            }
        }

        /// <summary>Runs a command to its end.</summary>
        /// <param name="say">Gets each line of its output and errors, on another thread.</param>
        /// <param name="token">Ends the process.</param>
        /// <exception cref="TrainerException">It does not start.</exception>
        /// <exception cref="OperationCanceledException">It was cancelled.</exception>
        public static async Task<ToolResult> RunAsync(
            string file, IEnumerable<string> arguments, string folder, Action<string> say, CancellationToken token)
        {
            ProcessStartInfo info = Info(file, arguments, folder);
            info.RedirectStandardOutput = info.RedirectStandardError = info.RedirectStandardInput = true;
            info.StandardOutputEncoding = info.StandardErrorEncoding = new UTF8Encoding(false);
            using (Process process = Start(info))
            using (token.Register(() => Kill(process)))
            {
                process.StandardInput.Close();
                Task<string> output = Task.Run(() => Read(process.StandardOutput, say));
                Task<string> error = Task.Run(() => Read(process.StandardError, say));
                await Task.WhenAll(output, error).ConfigureAwait(false);
                process.WaitForExit();
                token.ThrowIfCancellationRequested();
                return new ToolResult(process.ExitCode, output.Result, error.Result);
            }
        }

        /// <summary>Ends a process at once, if it still runs.</summary>
        public static void Kill(Process process)
        {
            try
            {
                process.Kill();
            }
            catch (Exception error) when (error is InvalidOperationException || error is Win32Exception)
            {
                return; // it has ended
            }
        }

        private static string Read(TextReader reader, Action<string> say)
        {
            var text = new StringBuilder();
            for (string line = reader.ReadLine(); line != null; line = reader.ReadLine())
            {
                text.Append(line).Append('\n');
                say(line);
            }
            return text.ToString();
        }
    }
}
