using System;
using System.Globalization;
using System.Linq;

namespace Tau.Core
{
    /// <summary>Reads values of flags; all throw a <see cref="TauException"/> that names flag and value.</summary>
    internal static class FlagValue
    {
        /// <summary>A whole number within limits; null: no limit.</summary>
        public static long Whole(string flag, string text, long? low, long? high = null)
        {
            var read = long.TryParse(text, NumberStyles.AllowLeadingSign, CultureInfo.InvariantCulture, out var value);
            if (!read || (low.HasValue && value < low) || (high.HasValue && value > high))
            {
                throw Fault(flag, $"'{text}' is not a whole number{Limits(low, high)}");
            }
            return value;
        }

        /// <summary>A finite number of at least <paramref name="low"/>; null: any.</summary>
        public static double Number(string flag, string text, double? low)
        {
            var read = double.TryParse(text, NumberStyles.Float, CultureInfo.InvariantCulture, out var value);
            if (!read || double.IsNaN(value) || double.IsInfinity(value) || (low.HasValue && value < low))
            {
                var limits = low.HasValue ? " of at least " + PythonText.General(low.Value) : string.Empty;
                throw Fault(flag, $"'{text}' is not a number{limits}");
            }
            return value;
        }

        /// <summary>One of some words, as they are written.</summary>
        public static string Choice(string flag, string text, params string[] choices)
        {
            if (Array.IndexOf(choices, text) < 0)
            {
                var known = string.Join(", ", choices.Select(choice => "'" + choice + "'"));
                throw Fault(flag, $"invalid choice: '{text}' (choose from {known})");
            }
            return text;
        }

        /// <summary>A text that is not empty.</summary>
        public static string Text(string flag, string text)
        {
            return text.Trim().Length > 0 ? text : throw Fault(flag, "is empty; give a value");
        }

        /// <summary>A flag that cannot be used as it stands.</summary>
        public static TauException Fault(string flag, string reason)
        {
            return new TauException(flag + ": " + reason + "; correct this flag.");
        }

        private static string Limits(long? low, long? high)
        {
            if (!low.HasValue)
            {
                return string.Empty;
            }
            return high.HasValue
                ? FormattableString.Invariant($" from {low} to {high}")
                : FormattableString.Invariant($" of at least {low}");
        }
    }
}
