using System;
using System.Collections.Generic;
using System.Linq;

namespace Tau.Core
{
    /// <summary>
    /// Flags of a command line by name: "--flag value" and "--flag=value". Arguments that are not known are left alone;
    /// of a repeated flag the last value counts.
    /// </summary>
    internal sealed class FlagList
    {
        private readonly Dictionary<string, string> _values = new Dictionary<string, string>(StringComparer.Ordinal);
        private readonly List<string> _rest = new List<string>();

        /// <summary>Reads the arguments.</summary>
        /// <param name="arguments">All arguments.</param>
        /// <param name="known">Flags that take a value.</param>
        /// <param name="switches">Flags that take none.</param>
        /// <exception cref="TauException">A value is missing, or a switch has one.</exception>
        public FlagList(IReadOnlyList<string> arguments, string[] known, string[] switches)
        {
            for (var index = 0; index < arguments.Count; index++)
            {
                var argument = arguments[index];
                var equals = argument.StartsWith("--", StringComparison.Ordinal) ? argument.IndexOf('=') : -1;
                var flag = equals < 0 ? argument : argument.Substring(0, equals);
                if (switches.Contains(flag))
                {
                    _values[flag] = equals < 0 ? string.Empty : throw FlagValue.Fault(flag, "takes no value");
                }
                else if (!known.Contains(flag))
                {
                    _rest.Add(argument);
                }
                else if (equals >= 0)
                {
                    _values[flag] = argument.Substring(equals + 1);
                }
                else
                {
                    _values[flag] = Next(flag, arguments, ++index);
                }
            }
        }

        /// <summary>Arguments that are no known flag, in order.</summary>
        public IReadOnlyList<string> Rest => _rest;

        /// <summary>The flag's value; null: it is not given.</summary>
        public string this[string flag] => _values.TryGetValue(flag, out var value) ? value : null;

        /// <summary>The value of the flag, read, or something else where it is not given.</summary>
        public T Get<T>(string flag, Func<string, string, T> read, T otherwise)
        {
            return _values.TryGetValue(flag, out var value) ? read(flag, value) : otherwise;
        }

        private static string Next(string flag, IReadOnlyList<string> arguments, int index)
        {
            var value = index < arguments.Count ? arguments[index] : null;
            var isFlag = value != null && value.Length > 1 && value[0] == '-' && !IsNumber(value[1]);
            return value == null || isFlag ? throw FlagValue.Fault(flag, "expected one value") : value;
        }

        private static bool IsNumber(char letter)
        {
            return letter == '.' || (letter >= '0' && letter <= '9');
        }
    }
}
