using System;
using System.Collections.Generic;
using System.IO;
using System.Linq;
using System.Text;

namespace Tau.Trainer
{
    /// <summary>How a runtime splits the one text that it starts a process with into arguments.</summary>
    public enum ArgumentRules
    {
        /// <summary>Windows, and .NET on every system.</summary>
        Windows,

        /// <summary>Mono on macOS and Linux, as in the Unity editor: as a shell does.</summary>
        Shell,
    }

    /// <summary>
    /// Joins arguments to one text. `ProcessStartInfo.ArgumentList` would do it, but Unity's .NET Framework profile has
    /// none.
    /// </summary>
    public static class CommandLine
    {
        /// <summary>The rules of this runtime.</summary>
        public static ArgumentRules Here =>
            Path.DirectorySeparatorChar == '/' && Type.GetType("Mono.Runtime") != null
                ? ArgumentRules.Shell
                : ArgumentRules.Windows;

        /// <summary>A text that is split into exactly these arguments.</summary>
        public static string Join(IEnumerable<string> arguments, ArgumentRules rules)
        {
            Func<string, string> quote = rules == ArgumentRules.Shell ? (Func<string, string>)Shell : Windows;
            return string.Join(" ", arguments.Select(quote));
        }

        private static string Shell(string argument)
        {
            return "'" + argument.Replace("'", "'\\''") + "'";
        }

        /// <summary>
        /// By the rules of CommandLineToArgvW: backslashes count double only before a quote, and a quote needs one.
        /// </summary>
        private static string Windows(string argument)
        {
            var quoted = new StringBuilder("\"");
            var backslashes = 0;
            foreach (char letter in argument)
            {
                if (letter == '"')
                {
                    quoted.Append('\\', backslashes + 1);
                }
                backslashes = letter == '\\' ? backslashes + 1 : 0;
                quoted.Append(letter);
            }
            return quoted.Append('\\', backslashes).Append('"').ToString();
        }
    }
}
