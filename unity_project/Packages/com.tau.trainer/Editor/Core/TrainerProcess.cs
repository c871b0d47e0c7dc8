using System;
using System.Collections.Generic;
using System.ComponentModel;
using System.Diagnostics;
using System.Globalization;

namespace Tau.Trainer
{
    /// <summary>
    /// A process that outlives this one's objects: it writes to a file instead of a pipe, and is found again by its
    /// number and its start, because numbers are used again.
    /// </summary>
    public sealed class TrainerProcess
    {
        private const double ClockSeconds = 2.0;

        private readonly Process _process;

        private TrainerProcess(Process process)
        {
            _process = process;
        }

        /// <summary>The number of the process.</summary>
        public int Id => _process.Id;

        /// <summary>When it started, for <see cref="Find"/>; empty if the system does not say.</summary>
        public string Started => StartOf(_process)?.ToString("o", CultureInfo.InvariantCulture) ?? string.Empty;

        /// <summary>Whether it has ended.</summary>
        public bool HasEnded
        {
            get
            {
                try
                {
                    return _process.HasExited;
                }
                catch (Exception error) when (error is InvalidOperationException || error is Win32Exception)
                {
                    return true;
                }
            }
        }

        /// <summary>Starts one.</summary>
        /// <exception cref="TrainerException">It does not start.</exception>
        public static TrainerProcess Start(string file, IEnumerable<string> arguments, string folder)
        {
            return new TrainerProcess(Tool.Start(Tool.Info(file, arguments, folder)));
        }

        /// <summary>A process that an earlier domain or editor started; null if it has ended.</summary>
        public static TrainerProcess Find(int id, string started)
        {
            try
            {
                Process process = Process.GetProcessById(id);
                DateTime? start = StartOf(process);
                const DateTimeStyles Exact = DateTimeStyles.RoundtripKind;
                bool known = DateTime.TryParse(started, CultureInfo.InvariantCulture, Exact, out DateTime then);
                bool same = !known || start == null || Math.Abs((start.Value - then).TotalSeconds) < ClockSeconds;
                return same && !process.HasExited ? new TrainerProcess(process) : null;
            }
            catch (Exception error) when (error is ArgumentException || error is InvalidOperationException
                || error is Win32Exception)
            {
                return null;
            }
        }

        /// <summary>Ends it at once. Nothing is saved.</summary>
        public void Kill()
        {
            Tool.Kill(_process);
        }

        private static DateTime? StartOf(Process process)
        {
            try
            {
                return process.StartTime.ToUniversalTime();
            }
            catch (Exception error) when (error is InvalidOperationException || error is Win32Exception
                || error is NotSupportedException)
            {
                return null;
            }
        }
    }
}
