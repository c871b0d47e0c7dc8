using System;
using System.Collections.Generic;
using System.Globalization;
using System.Linq;

namespace Tau.Core
{
    /// <summary>
    /// Flags of a command line by name: "--flag value" and "--flag=value". Unknown arguments are ignored; if a flag is
    /// repeated, the last value counts. Errors are a <see cref="TauException"/> that names the flag.
    /// </summary>
    internal sealed class FlagList
    {
        private readonly Dictionary<string, string> _values = new Dictionary<string, string>(StringComparer.Ordinal);
        private readonly List<string> _rest = new List<string>();

        /// <summary>Reads the arguments.</summary>
        /// <param name="arguments">All arguments.</param>
        /// <param name="known">Flags that take a value.</param>
        /// <param name="switches">Flags that take none.</param>
        public FlagList(IReadOnlyList<string> arguments, string[] known, params string[] switches)
        {
            for (var index = 0; index < arguments.Count; index++)
            {
                var parts = arguments[index].Split(new[] { '=' }, 2);
                if (switches.Contains(parts[0]))
                {
                    _values[parts[0]] = parts.Length == 1 ? "" : throw Fault(parts[0], "takes no value");
                }
                else if (!known.Contains(parts[0]))
                {
                    _rest.Add(arguments[index]);
                }
                else
                {
                    _values[parts[0]] = parts.Length > 1 ? parts[1] : Next(parts[0], arguments, ++index);
                }
            }
        }

        /// <summary>Arguments that are not a known flag, in order.</summary>
        public IReadOnlyList<string> Rest => _rest;

        /// <summary>The flag's value; null if it is not given.</summary>
        public string this[string flag] => _values.TryGetValue(flag, out var value) ? value : null;

        /// <summary>A text that is not empty; null if it is not given.</summary>
        public string Text(string flag)
        {
            var text = this[flag];
            return text == null || text.Trim().Length > 0 ? text : throw Fault(flag, "is empty; give a value");
        }

        /// <summary>A whole number within limits; null if it is not given.</summary>
        public long? Whole(string flag, long low, long high)
        {
            if (this[flag] == null)
            {
                return null;
            }
            var read = long.TryParse(
                this[flag], NumberStyles.AllowLeadingSign, CultureInfo.InvariantCulture, out var value);
            return read && value >= low && value <= high ? value : throw Fault(
                flag, FormattableString.Invariant($"'{this[flag]}' is not a whole number from {low} to {high}"));
        }

        /// <summary>A finite number; null if it is not given.</summary>
        public double? Number(string flag)
        {
            if (this[flag] == null)
            {
                return null;
            }
            var read = double.TryParse(this[flag], NumberStyles.Float, CultureInfo.InvariantCulture, out var value);
            return read && !double.IsNaN(value) && !double.IsInfinity(value)
                ? value
                : throw Fault(flag, $"'{this[flag]}' is not a number");
        }

        /// <summary>One of several words, as they are written; null if it is not given.</summary>
        public string Choice(string flag, params string[] choices)
        {
            return this[flag] == null || choices.Contains(this[flag]) ? this[flag] : throw Fault(
                flag, $"'{this[flag]}' is not one of {string.Join(", ", choices)}");
        }

        private static string Next(string flag, IReadOnlyList<string> arguments, int index)
        {
            var value = index < arguments.Count ? arguments[index] : "--";
            return value.StartsWith("--", StringComparison.Ordinal) ? throw Fault(flag, "has no value") : value;
        }

        private static TauException Fault(string flag, string reason)
        {
            return new TauException(flag + ": " + reason + "; correct this flag.");
        }
    }
}
