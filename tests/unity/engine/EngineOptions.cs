using System;
using System.Collections.Generic;
using System.Globalization;
using System.IO;
using Tau.Core;

namespace Tau.Engine
{
    /// <summary>
    /// The engine's command line: a Unity build's flags, the game's, and two of its own. Unknown arguments are ignored,
    /// as a Unity build does; a wrong value of a known one is a mistake.
    /// </summary>
    internal sealed class EngineOptions
    {
        private const string DataVariable = "TAU_DATA";
        private const string DataFile = "tau.json";
        private const double UsualPatience = 10.0;

        private EngineOptions(IReadOnlyList<string> arguments)
        {
            Tau = TauOptions.Parse(arguments);
            Port = ParsePort(Value(arguments, "--mlagents-port"));
            ConnectPatience = TimeSpan.FromSeconds(ParseSeconds(Value(arguments, "--connect-seconds")));
            ReportFile = Value(arguments, "--report-file")?.Replace(
                "{port}", Port.ToString(CultureInfo.InvariantCulture));
            if (Tau.Scene != null && Tau.Scene != "tau")
            {
                throw new TauException(
                    $"--tau-scene: `{Tau.Scene}` needs Unity, and this engine is the core alone; give `tau`.");
            }
        }

        /// <summary>The game's options.</summary>
        public TauOptions Tau { get; }

        /// <summary>Where the trainer listens.</summary>
        public int Port { get; }

        /// <summary>How long to try while nobody listens.</summary>
        public TimeSpan ConnectPatience { get; }

        /// <summary>Where every decision is written, see <see cref="DecisionLog"/>; null: nowhere.</summary>
        public string ReportFile { get; }

        /// <summary>
        /// The data set's file: from <c>--tau-data</c>, the environment variable <c>TAU_DATA</c>, or <c>tau.json</c>
        /// beside this program.
        /// </summary>
        /// <exception cref="TauException">There is none of these.</exception>
        public string DataPath
        {
            get
            {
                var variable = Environment.GetEnvironmentVariable(DataVariable);
                var named = Tau.Data ?? (string.IsNullOrEmpty(variable) ? null : variable);
                if (named != null)
                {
                    return named;
                }

                var beside = Path.Combine(AppContext.BaseDirectory, DataFile);
                return File.Exists(beside)
                    ? beside
                    : throw new TauException(
                        $"There is no data set: {beside} does not exist; name a Tau JSON file with --tau-data, or in " +
                        $"the environment variable {DataVariable}.");
            }
        }

        /// <summary>Options from a command line.</summary>
        /// <exception cref="TauException">A known flag has a wrong value, or there is no port.</exception>
        public static EngineOptions Parse(IReadOnlyList<string> arguments)
        {
            return new EngineOptions(arguments);
        }

        /// <summary>
        /// The file after <c>-logFile</c>, found without reading other flags: their mistakes go there.
        /// </summary>
        public static string LogFile(IReadOnlyList<string> arguments)
        {
            return Value(arguments, "-logFile") ?? Value(arguments, "-logfile");
        }

        private static string Value(IReadOnlyList<string> arguments, string flag)
        {
            string value = null;
            for (var i = 0; i < arguments.Count; i++)
            {
                if (arguments[i] == flag)
                {
                    value = i + 1 < arguments.Count
                        ? arguments[i + 1]
                        : throw new TauException($"{flag}: expected one argument; give a value after it.");
                }
                else if (arguments[i].StartsWith(flag + "=", StringComparison.Ordinal))
                {
                    value = arguments[i].Substring(flag.Length + 1);
                }
            }

            return value;
        }

        private static int ParsePort(string text)
        {
            if (text == null)
            {
                throw new TauException("No trainer to connect to; give its port with `--mlagents-port N`.");
            }

            var whole = int.TryParse(text, NumberStyles.None, CultureInfo.InvariantCulture, out var port);
            return whole && port >= 1 && port <= 65535
                ? port
                : throw new TauException($"--mlagents-port: '{text}' is not a whole number from 1 to 65535.");
        }

        private static double ParseSeconds(string text)
        {
            if (text == null)
            {
                return UsualPatience;
            }

            var number = double.TryParse(text, NumberStyles.Float, CultureInfo.InvariantCulture, out var seconds);
            return number && seconds >= 0.0 && seconds <= 1e6
                ? seconds
                : throw new TauException($"--connect-seconds: '{text}' is not a number from 0 to 1000000.");
        }
    }
}
