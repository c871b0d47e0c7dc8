// Stand-ins for UnityEngine: the running program, its clock, its log and its screen.
using System;

namespace UnityEngine
{
    public enum RuntimePlatform
    {
        OSXEditor = 0,
        OSXPlayer = 1,
        WindowsPlayer = 2,
        WindowsEditor = 7,
        IPhonePlayer = 8,
        Android = 11,
        LinuxPlayer = 13,
        LinuxEditor = 16,
        WebGLPlayer = 17,
    }

    public enum LogType
    {
        Error,
        Assert,
        Warning,
        Log,
        Exception,
    }

    public enum StackTraceLogType
    {
        None,
        ScriptOnly,
        Full,
    }

    public sealed class Application
    {
        public delegate void LogCallback(string condition, string stackTrace, LogType type);

        public static event LogCallback logMessageReceived
        {
            add { }
            remove { }
        }

        public static event LogCallback logMessageReceivedThreaded
        {
            add { }
            remove { }
        }

        public static bool isPlaying => default;

        public static bool isEditor => default;

        public static bool isFocused => default;

#if UNITY_2018_2_OR_NEWER
        public static bool isBatchMode => default;
#endif

        public static bool isMobilePlatform => default;

        public static bool runInBackground { get; set; }

        public static int targetFrameRate { get; set; }

        public static RuntimePlatform platform => default;

        public static string dataPath => default;

        public static string streamingAssetsPath => default;

        public static string persistentDataPath => default;

        public static string temporaryCachePath => default;

        public static string productName => default;

        public static string version => default;

        public static string unityVersion => default;

        public static StackTraceLogType GetStackTraceLogType(LogType logType) => default;

        public static void SetStackTraceLogType(LogType logType, StackTraceLogType stackTraceType) { }

        public static void OpenURL(string url) { }

        public static void Quit() { }

#if UNITY_2018_3_OR_NEWER
        public static void Quit(int exitCode) { }
#endif
    }

    public sealed class Debug
    {
        public static bool isDebugBuild => default;

        public static void Assert(bool condition) { }

        public static void Assert(bool condition, string message) { }

        public static void DrawLine(Vector3 start, Vector3 end, Color color) { }

        public static void Log(object message) { }

        public static void Log(object message, Object context) { }

        public static void LogError(object message) { }

        public static void LogError(object message, Object context) { }

        public static void LogErrorFormat(string format, params object[] args) { }

        public static void LogException(Exception exception) { }

        public static void LogException(Exception exception, Object context) { }

        public static void LogFormat(string format, params object[] args) { }

        public static void LogWarning(object message) { }

        public static void LogWarning(object message, Object context) { }

        public static void LogWarningFormat(string format, params object[] args) { }
    }

    public sealed class Time
    {
        public static float time => default;

        public static float deltaTime => default;

        public static float fixedTime => default;

        public static float fixedDeltaTime { get; set; }

        public static float unscaledTime => default;

        public static float unscaledDeltaTime => default;

        public static float maximumDeltaTime { get; set; }

        public static float realtimeSinceStartup => default;

        public static float timeScale { get; set; }

        public static float timeSinceLevelLoad => default;

        public static int frameCount => default;

        public static int captureFramerate { get; set; }
    }

    public sealed class Screen
    {
        public static int width => default;

        public static int height => default;

        public static float dpi => default;

        public static bool fullScreen { get; set; }

        public static void SetResolution(int width, int height, bool fullscreen) { }
    }

    public sealed class QualitySettings : Object
    {
        public static int vSyncCount { get; set; }

        public static void SetQualityLevel(int index) { }

        public static void SetQualityLevel(int index, bool applyExpensiveChanges) { }
    }

    public sealed class SystemInfo
    {
        public static string deviceName => default;

        public static string operatingSystem => default;

        public static int processorCount => default;

        public static int systemMemorySize => default;

        public static Rendering.GraphicsDeviceType graphicsDeviceType => default;

        public static bool supportsComputeShaders => default;
    }
}

namespace UnityEngine.Rendering
{
    public enum GraphicsDeviceType
    {
        Null = 4,
    }
}
