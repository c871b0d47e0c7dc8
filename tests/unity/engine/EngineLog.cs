using System;
using System.Globalization;
using System.IO;
using System.Text;
using Tau.Core;

namespace Tau.Engine
{
    /// <summary>
    /// Lines for a person: in the file that <c>-logFile</c> names, else on the standard error stream.
    /// </summary>
    internal sealed class EngineLog : IDisposable
    {
        private readonly object _lock = new object();
        private readonly bool _stamped;
        private TextWriter _writer;

        private EngineLog(TextWriter writer, bool stamped)
        {
            _writer = writer;
            _stamped = stamped;
        }

        /// <summary>Begin a log; null or <c>-</c>: on the standard error stream.</summary>
        /// <exception cref="TauException">The file cannot be written.</exception>
        public static EngineLog Open(string path)
        {
            if (path == null || path == "-")
            {
                return new EngineLog(Console.Error, false);
            }

            try
            {
                Directory.CreateDirectory(Path.GetDirectoryName(Path.GetFullPath(path)));
                var file = new FileStream(path, FileMode.Create, FileAccess.Write, FileShare.ReadWrite);
                return new EngineLog(new StreamWriter(file, new UTF8Encoding(false)) { AutoFlush = true }, true);
            }
            catch (Exception error) when (error is IOException || error is UnauthorizedAccessException)
            {
                throw new TauException(
                    $"The log file `{path}` cannot be written: {error.Message.TrimEnd('.')}; choose another.", error);
            }
        }

        /// <summary>Append lines.</summary>
        public void Write(string text)
        {
            lock (_lock)
            {
                var now = DateTime.Now.ToString("yyyy-MM-dd HH:mm:ss,fff ", CultureInfo.InvariantCulture);
                _writer.WriteLine(_stamped ? now + text : text);
            }
        }

        /// <inheritdoc/>
        public void Dispose()
        {
            lock (_lock)
            {
                _writer.Flush();
                if (_stamped)
                {
                    _writer.Dispose();
                    _writer = TextWriter.Null;
                }
            }
        }
    }
}
