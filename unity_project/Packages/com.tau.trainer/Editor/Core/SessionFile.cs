using System;
using System.Collections.Generic;
using System.Globalization;
using System.IO;
using System.Linq;

namespace Tau.Trainer
{
    /// <summary>
    /// What must survive a reload of the C# domain or a restart of the editor: the process, where it writes, and what
    /// was already done for it.
    /// </summary>
    public sealed class SessionFile
    {
        private readonly string _path;
        private readonly Dictionary<string, string> _values = new Dictionary<string, string>();

        /// <summary>The session in this file; if there is none, or it cannot be read, everything is empty.</summary>
        public SessionFile(string path)
        {
            _path = path;
            try
            {
                foreach (KeyValuePair<string, JsonNode> field in JsonNode.Read(File.ReadAllText(path)).Fields)
                {
                    _values[field.Key] = field.Value.Text ?? string.Empty;
                }
            }
            catch (Exception error) when (error is IOException || error is UnauthorizedAccessException)
            {
                _values.Clear();
            }
        }

        /// <summary>Number of the process; 0: none was started.</summary>
        public int Process
        {
            get => int.TryParse(this["process"], NumberStyles.None, CultureInfo.InvariantCulture, out int id) ? id : 0;
            set => this["process"] = value.ToString(CultureInfo.InvariantCulture);
        }

        /// <summary>A value; empty if it was never set.</summary>
        public string this[string name]
        {
            get => _values.TryGetValue(name, out string value) ? value : string.Empty;
            set => _values[name] = value;
        }

        /// <summary>Forgets everything.</summary>
        public void Clear()
        {
            _values.Clear();
        }

        /// <summary>Writes the file, completely or not at all.</summary>
        /// <exception cref="TrainerException">It cannot be written.</exception>
        public void Save()
        {
            IEnumerable<string> fields = _values.Select(
                field => JsonNode.Quote(field.Key) + ": " + JsonNode.Quote(field.Value));
            Whole.Write(_path, partial => File.WriteAllText(partial, "{" + string.Join(", ", fields) + "}\n"));
        }
    }
}
